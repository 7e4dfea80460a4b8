package gatewaycheck

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Gateways are clients of gateways, one of each.
type Gateways struct{ clients []*clientv3.Client }

const (
	// pingEvery and pingWithin are how clients notice that a gateway is away. etcd's servers take no more pings than these.
	pingEvery  = 6 * time.Second
	pingWithin = 3 * time.Second
	// tryWithin bounds one attempt of [Gateways.Ready], and the read of a page.
	tryWithin = 3 * time.Second
)

// Of makes gateways of clients that are open.
func Of(clients ...*clientv3.Client) *Gateways { return &Gateways{clients} }

// Connect opens a client of each gateway.
func Connect(addresses []string) (*Gateways, error) {
	g := new(Gateways)
	for _, address := range addresses {
		c, err := connect(address)
		if err != nil {
			g.Close()
			return nil, err
		}
		g.clients = append(g.clients, c)
	}
	return g, nil
}

func connect(addresses ...string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: addresses, DialKeepAliveTime: pingEvery, DialKeepAliveTimeout: pingWithin,
		Logger: zap.NewNop(), // errors are part of the record
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(addresses, ", "), err)
	}
	return c, nil
}

// Close closes the clients.
func (g *Gateways) Close() {
	for _, c := range g.clients {
		_ = c.Close() // its error only reports that the connection is gone
	}
}

// Ready waits until every gateway answers a read.
func (g *Gateways) Ready(ctx context.Context) error {
	for i, c := range g.clients {
		for {
			within, cancel := context.WithTimeout(ctx, tryWithin)
			_, err := c.Get(within, "ready")
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("gateway %d does not answer: %w", i, errors.Join(err, ctx.Err()))
			}
		}
	}
	return nil
}

// ReadHistoryFrom reads all changes below a prefix from etcd's members.
func ReadHistoryFrom(ctx context.Context, members []string, prefix string) (*History, error) {
	c, err := connect(members...)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return ReadHistory(ctx, c, prefix)
}

// HitsMetric is the gateway's counter of reads that the chain answered.
const HitsMetric = "netcraq_gateway_hits_total"

// Hits returns how many reads a gateway has answered from the chain since its start.
func Hits(ctx context.Context, address string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/proxy/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), HitsMetric+" "); ok {
			hits, err := strconv.ParseFloat(value, 64)
			return uint64(hits), err
		}
	}
	return 0, errors.Join(lines.Err(), errors.New("the gateway's metrics do not contain "+HitsMetric))
}
