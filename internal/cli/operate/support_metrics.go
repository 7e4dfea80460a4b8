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

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/support"
	"github.com/netcraq/netcraq/internal/platform/callerror"
)

// fetch gets a page of metrics.
type fetch func(context.Context) ([]byte, error)

// metricsPage is the result of a fetch.
type metricsPage struct {
	text []byte
	err  error
}

// addPages adds those of the controllers that the user names and of all that the leader knows, and of keyspaces on
// disks. Without a leader, snap is nil.
func (s *supportFlags) addPages(pages map[string]fetch, controllers []string, snap *admin.Snapshot, dial grpc.DialOption) {
	all := slices.Clone(controllers)
	if snap != nil {
		for _, c := range snap.Controllers {
			all = append(all, c.Address)
		}
		for _, k := range snap.Keyspaces {
			for _, address := range k.Addresses {
				pages["keyspace "+address] = func(ctx context.Context) ([]byte, error) { return s.keyspacePage(ctx, address) }
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
func ask(ctx context.Context, pages map[string]fetch) map[string]metricsPage {
	got := make(map[string]metricsPage)
	var mu sync.Mutex
	var asking sync.WaitGroup
	for of, get := range pages {
		asking.Go(func() {
			text, err := get(ctx)
			mu.Lock()
			defer mu.Unlock()
			got[of] = metricsPage{text, err}
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

// loadCertificates reads the files of --cert, --key and --cacert, which pages are asked for with.
func (s *supportFlags) loadCertificates() error {
	etcd := &s.doctor.etcd.Etcd
	config, err := cli.CertificatesOf(etcd.Cert, etcd.Key, etcd.CA)
	if err != nil {
		return err
	}
	s.secured = etcd.Cert != "" || etcd.CA != ""
	s.http = &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	return nil
}

// keyspacePage gets the page of a keyspace's gateway. The controllers do not know whether it has certificates, and those
// that the user named may be for an etcd.
func (s *supportFlags) keyspacePage(ctx context.Context, address string) ([]byte, error) {
	plain := "http://" + address + "/metrics"
	if !s.secured {
		return s.fetchPage(ctx, plain)
	}
	text, err := s.fetchPage(ctx, "https://"+address+"/metrics")
	if err == nil {
		return text, nil
	}
	if text, plainErr := s.fetchPage(ctx, plain); plainErr == nil {
		return text, nil
	}
	return nil, err
}

// maxPage is the most of a page of metrics that is packed.
const maxPage = 8 << 20

func (s *supportFlags) fetchPage(ctx context.Context, url string) ([]byte, error) {
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, maxPage))
}
