// Package pages reads the pages that gateways serve about the keys of their clients.
package pages

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/platform/callerror"
)

// Paths of the pages, in JSON: lists and values of [placement.Explanation].
const (
	PathKeys    = "/proxy/keys"    // the keys that are used most; ?most=N
	PathExplain = "/proxy/explain" // ?key=KEY
)

// Client reads pages of gateways.
type Client struct {
	Gateways []string // host:port, or URLs
	Timeout  time.Duration
	TLS      *tls.Config // nil: as the system says
}

// Failure is why a gateway has no answer.
type Failure struct {
	Gateway string `json:"gateway"`
	Reason  string `json:"reason"`
}

// Hottest returns the keys that the gateways' clients use most, with the sums of the counts of all gateways that answered.
// It returns an error only if none answered.
func (c *Client) Hottest(ctx context.Context, most int) ([]placement.Explanation, []Failure, error) {
	query := url.Values{"most": {strconv.Itoa(maxKeysOfGateway)}}
	answers, failed, err := ask[[]placement.Explanation](ctx, c, PathKeys, query)
	if err != nil {
		return nil, failed, err
	}
	lists := make([][]placement.Explanation, len(answers))
	for i := range answers {
		lists[i] = answers[i].page
	}
	all := placement.Together(lists)
	return all[:min(most, len(all))], failed, nil
}

// maxKeysOfGateway is how many keys of each gateway are read.
const maxKeysOfGateway = 10_000

// Explain returns the explanations of a key by the gateways that answered. It returns an error only if none answered.
func (c *Client) Explain(ctx context.Context, key string) ([]Explained, []Failure, error) {
	answers, failed, err := ask[placement.Explanation](ctx, c, PathExplain, url.Values{"key": {key}})
	list := make([]Explained, len(answers))
	for i := range answers {
		list[i] = Explained{answers[i].gateway, answers[i].page}
	}
	return list, failed, err
}

// Explained is what a gateway says about a key.
type Explained struct {
	Gateway string `json:"gateway"`
	placement.Explanation
}

// answer is a gateway's page.
type answer[T any] struct {
	gateway string
	page    T
}

// ask reads a page of all gateways at the same time. The answers are in the order of the gateways.
func ask[T any](ctx context.Context, c *Client, path string, query url.Values) (answers []answer[T], failed []Failure, err error) {
	all, errs := make([]answer[T], len(c.Gateways)), make([]error, len(c.Gateways))
	var asking sync.WaitGroup
	for i, address := range c.Gateways {
		all[i].gateway = address
		asking.Go(func() { errs[i] = c.page(ctx, address, path, query, &all[i].page) })
	}
	asking.Wait()
	for i, err := range errs {
		if err != nil {
			failed = append(failed, Failure{Gateway: c.Gateways[i], Reason: err.Error()})
			continue
		}
		answers = append(answers, all[i])
	}
	if len(answers) == 0 {
		return nil, failed, errors.Join(errs...)
	}
	return answers, failed, nil
}

// unanswered says why a page was not read, without the words of the libraries for the usual reasons.
func unanswered(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return callerror.NothingAnswers
	}
	if name := new(net.DNSError); errors.As(err, &name) {
		return callerror.NoAddress(name.Name)
	}
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err.Error()
}

// page reads a page of a gateway.
func (c *Client) page(ctx context.Context, address, path string, query url.Values, v any) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	at := address
	if !strings.Contains(at, "://") {
		at = "http://" + at
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(at, "/")+path+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("--gateways %s: %w", address, err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.TLS, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("the gateway %s does not answer: %s; name gateways with --gateways", address, unanswered(err))
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("the gateway %s: %s: %s", address, answer.Status, strings.TrimSpace(string(text)))
	}
	if err := json.NewDecoder(answer.Body).Decode(v); err != nil {
		return fmt.Errorf("the gateway %s sent a page of another release: %w", address, err)
	}
	return nil
}
