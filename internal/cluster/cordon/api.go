package cordon

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Account is the directory in which a pod finds the token and the authority of its service account.
const Account = "/var/run/secrets/kubernetes.io/serviceaccount"

// Service stands for the address of the API server that Kubernetes gives to every pod.
const Service = "service"

const (
	// askWithin bounds one request.
	askWithin = 5 * time.Second
	// longestAnswer bounds the JSON of an answer.
	longestAnswer = 64 << 20
)

// API is a client of an API server. It needs the rights to get and to list nodes. One goroutine may use it at a time.
type API struct {
	url       string
	account   string
	client    *http.Client
	authority []byte // of client, in PEM
}

// New returns a client of the API server at a URL, or of [Service], with the files of a service account. It reads them
// at each request, because Kubernetes replaces them.
func New(server, account string) (*API, error) {
	if server == Service {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, fmt.Errorf("%q needs $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT, which pods have: give the "+
				"URL of the API server", server)
		}
		server = "https://" + net.JoinHostPort(host, port)
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of an API server, such as https://192.0.2.10:6443", server)
	}
	return &API{url: strings.TrimSuffix(server, "/"), account: account}, nil
}

// Cordoned lists the machines that are cordoned. The list may be old: see [API.Machine].
func (a *API) Cordoned(ctx context.Context) ([]string, error) {
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	// Version 0 is any that the API server has in memory.
	path := "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue&resourceVersion=0"
	if err := a.get(ctx, path, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", &list); err != nil {
		return nil, err
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Metadata.Name
	}
	return names, nil
}

// Machine is the newest state of a machine: whether Kubernetes has it, and whether it is cordoned.
func (a *API) Machine(ctx context.Context, name string) (exists, cordoned bool, err error) {
	var node struct{ Spec struct{ Unschedulable bool } }
	err = a.get(ctx, "/api/v1/nodes/"+url.PathEscape(name), "application/json", &node)
	var answer *statusError
	if errors.As(err, &answer) && answer.code == http.StatusNotFound {
		return false, false, nil
	}
	return err == nil, node.Spec.Unschedulable, err
}

// statusError is an answer other than 200.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string {
	switch e.code {
	case http.StatusUnauthorized:
		return "the API server does not accept the token of the service account: " + e.text
	case http.StatusForbidden:
		return "the service account needs the rights to get and to list nodes: " + e.text
	}
	return "the API server answers " + e.text
}

func (a *API) get(ctx context.Context, path, accept string, into any) error {
	token, err := a.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", accept)
	answer, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, longestAnswer))
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		var status struct{ Message string }
		_ = json.Unmarshal(text, &status) // a server in between may answer otherwise
		return &statusError{answer.StatusCode, strings.TrimSpace(answer.Status + " " + status.Message)}
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s does not answer as an API server: %w", a.url, err)
	}
	return nil
}

// connect returns the present token. It renews the client if the authority has changed.
func (a *API) connect() (token string, err error) {
	text, err := os.ReadFile(filepath.Join(a.account, "token"))
	if err != nil {
		return "", fmt.Errorf("the service account has no token: %w", err)
	}
	authority, err := os.ReadFile(filepath.Join(a.account, "ca.crt"))
	if err != nil {
		return "", fmt.Errorf("the service account has no authority: %w", err)
	}
	token = string(bytes.TrimSpace(text))
	if a.client != nil && bytes.Equal(authority, a.authority) {
		return token, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return "", fmt.Errorf("%s has no certificate", filepath.Join(a.account, "ca.crt"))
	}
	a.Close()
	a.authority = authority
	a.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	return token, nil
}

// Close ends the connections.
func (a *API) Close() {
	if a.client != nil {
		a.client.CloseIdleConnections()
	}
}
