package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// api asks the API server with the rights of an administrator. Only a few fields of a few objects are needed, so there
// is no client library.
type api struct {
	client http.Client
	token  string
}

func newAPI(name string) (*api, error) {
	cert, err := os.ReadFile(filepath.Join(dirOf(name), apiCert))
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dirOf(name), tokenFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	admin, err := csv.NewReader(f).Read() // the first user
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(cert) {
		return nil, errors.New("the API server's certificate cannot be read")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS13}}
	return &api{http.Client{Transport: transport}, admin[0]}, nil
}

func (a *api) close() { a.client.CloseIdleConnections() }

// get reads an object; into may be nil.
func (a *api) get(ctx context.Context, path string, into any) error {
	url := fmt.Sprintf("https://%s:%d%s", controlAddr, apiPort, path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	answer, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// condition is one of an object's status.
type condition struct {
	Type, Status      string
	LastHeartbeatTime time.Time
}

// ready returns the condition of that name if it holds.
func ready(conditions []condition) (condition, bool) {
	i := slices.IndexFunc(conditions, func(c condition) bool { return c.Type == "Ready" && c.Status == "True" })
	if i < 0 {
		return condition{}, false
	}
	return conditions[i], true
}

type metadata struct{ Name, Namespace string }

type nodeList struct {
	Items []struct {
		Metadata metadata
		Status   struct {
			Conditions []condition
			NodeInfo   struct{ KubeletVersion, ContainerRuntimeVersion string }
		}
	}
}

// pod is a pod that was given to a node.
type pod struct {
	Metadata metadata
	Spec     struct{ NodeName string }
	Status   struct {
		Conditions        []condition
		ContainerStatuses []struct {
			State struct{ Running struct{ StartedAt time.Time } }
		}
	}
}

// readySince reports whether a pod is ready, and its containers run that were started since then.
func (p *pod) readySince(then time.Time) bool {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running.StartedAt.Before(then) {
			return false
		}
	}
	_, ok := ready(p.Status.Conditions)
	return ok
}

type podList struct{ Items []pod }
