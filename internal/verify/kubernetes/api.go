package kubernetes

import (
	"bytes"
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

// API asks the API server with the rights of an administrator. Only a few fields of a few objects are needed, so there
// is no client library.
type API struct {
	client http.Client
	token  string
}

// NewAPI returns a client of a cluster's API server.
func NewAPI(name string) (*API, error) {
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
	return &API{http.Client{Transport: transport}, admin[0]}, nil
}

// Close ends the connections.
func (a *API) Close() { a.client.CloseIdleConnections() }

// StatusError is an answer of the API server that reports a failure.
type StatusError struct {
	Code int
	Text string
}

func (e *StatusError) Error() string { return e.Text }

// Stream sends a request with an optional body and returns the body of the answer.
func (a *API) Stream(ctx context.Context, method, path, kind string, body []byte) (io.ReadCloser, error) {
	url := fmt.Sprintf("https://%s:%d%s", controlAddr, apiPort, path)
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	answer, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 == 2 {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	failed := &StatusError{answer.StatusCode, fmt.Sprintf("%s %s: %s: %s", method, path, answer.Status, text)}
	return nil, errors.Join(failed, err)
}

// Do sends a request with an optional body. into takes the JSON of the answer and may be nil.
func (a *API) Do(ctx context.Context, method, path, kind string, body []byte, into any) error {
	answer, err := a.Stream(ctx, method, path, kind, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	text, err := io.ReadAll(answer)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Get reads an object; into may be nil.
func (a *API) Get(ctx context.Context, path string, into any) error {
	return a.Do(ctx, http.MethodGet, path, "", nil, into)
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
