package operate

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/support"
	"github.com/netcraq/netcraq/internal/platform/callerror"
)

// fetch gets a page of metrics.
type fetch func(context.Context) ([]byte, error)

// page is the result of a fetch.
type page struct {
	text []byte
	err  error
}

// addPages adds those of the controllers that the user names and of all that the leader knows, and of keyspaces on
// disks. Without a leader, snap is nil.
func addPages(pages map[string]fetch, controllers []string, snap *admin.Snapshot, dial grpc.DialOption) {
	all := slices.Clone(controllers)
	if snap != nil {
		for _, c := range snap.Controllers {
			all = append(all, c.Address)
		}
		for _, k := range snap.Keyspaces {
			for _, address := range k.Addresses {
				pages["keyspace "+address] = func(ctx context.Context) ([]byte, error) { return fetchPage(ctx, address+"/metrics") }
			}
		}
	}
	for _, address := range all {
		pages["controller "+address] = func(ctx context.Context) ([]byte, error) {
			return admin.MetricsPage(ctx, address, dial)
		}
	}
}

// ask gets all pages at once.
func ask(ctx context.Context, pages map[string]fetch) map[string]page {
	got := make(map[string]page)
	var mu sync.Mutex
	var asking sync.WaitGroup
	for of, get := range pages {
		asking.Go(func() {
			text, err := get(ctx)
			mu.Lock()
			defer mu.Unlock()
			got[of] = page{text, err}
		})
	}
	asking.Wait()
	return got
}

// inFile replaces what is no part of a file's name.
var inFile = strings.NewReplacer("://", "-", " ", "-", ":", "_", "/", "_")

// packPages adds pages of metrics, and notes those that are missing.
func (s *supportFlags) packPages(ctx context.Context, a *support.Archive, pages map[string]fetch) error {
	ctx, cancel := context.WithTimeout(ctx, s.doctor.timeout)
	defer cancel()
	got := ask(ctx, pages)
	for _, of := range slices.Sorted(maps.Keys(got)) {
		p := got[of]
		if p.err != nil {
			a.Note("metrics of %s: %s", of, callerror.Text(p.err))
		} else if err := a.Add("metrics/"+inFile.Replace(of)+".txt", p.text); err != nil {
			return err
		}
	}
	return nil
}

// maxPage is the most of a page of metrics that is packed.
const maxPage = 8 << 20

func fetchPage(ctx context.Context, url string) ([]byte, error) {
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, maxPage))
}
