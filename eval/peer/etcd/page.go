package etcd

import (
	"context"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Page reads a page of a member.
func Page(ctx context.Context, url string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return read(response.Body)
}

// Metrics reads the metrics of the member with an endpoint.
func Metrics(ctx context.Context, endpoint string) (families map[string]*dto.MetricFamily, err error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	err = Page(ctx, endpoint+"/metrics", func(r io.Reader) (err error) {
		families, err = parser.TextToMetricFamilies(r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("metrics of an etcd member: %w", err)
	}
	return families, nil
}
