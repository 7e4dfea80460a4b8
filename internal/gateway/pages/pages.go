// Package pages reads the pages that gateways serve about the keys of their clients.
package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/gateway/placement"
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
}

// Hottest returns the keys that the gateways' clients use most, the counts of all gateways together.
func (c *Client) Hottest(ctx context.Context, most int) ([]placement.Explanation, error) {
	lists := make([][]placement.Explanation, len(c.Gateways))
	for i, address := range c.Gateways {
		if err := c.page(ctx, address, PathKeys, url.Values{"most": {strconv.Itoa(maxKeysOfGateway)}}, &lists[i]); err != nil {
			return nil, err
		}
	}
	all := placement.Together(lists)
	return all[:min(most, len(all))], nil
}

// maxKeysOfGateway is how many keys of each gateway are read.
const maxKeysOfGateway = 10_000

// Explain returns what each gateway says about a key.
func (c *Client) Explain(ctx context.Context, key string) ([]Explained, error) {
	list := make([]Explained, len(c.Gateways))
	for i, address := range c.Gateways {
		list[i].Gateway = address
		if err := c.page(ctx, address, PathExplain, url.Values{"key": {key}}, &list[i].Explanation); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Explained is what a gateway says about a key.
type Explained struct {
	Gateway string `json:"gateway"`
	placement.Explanation
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
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the gateway %s does not answer: %w; name gateways with --gateways", address, err)
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
