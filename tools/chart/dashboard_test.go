package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// TestDashboardSchema: the dashboard has no fields but those of Grafana's schema, with its types, and no required field is
// missing. What Grafana makes of it is not tested: that needs Grafana.
func TestDashboardSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := cog.NewRuntime()
	kinds.RegisterPanelcfgVariant(stat.VariantConfig())
	kinds.RegisterPanelcfgVariant(timeseries.VariantConfig())
	var d dashboard.Dashboard
	fits(t, "the dashboard", d.UnmarshalJSONStrict(text), d.Validate())
	var file struct {
		Panels []struct {
			Title, Type string
			FieldConfig json.RawMessage
			Targets     []json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, p := range file.Panels {
		if _, known := cog.ConfigForPanelcfgVariant(p.Type); !known && p.Type != "row" {
			t.Errorf("%s: panels of type %q are not checked", p.Title, p.Type)
		}
		// The library does not look for unknown fields in these.
		var config dashboard.FieldConfigSource
		fits(t, p.Title, config.UnmarshalJSONStrict(p.FieldConfig), config.Validate())
		for _, target := range p.Targets {
			var query prometheus.Dataquery
			fits(t, p.Title, query.UnmarshalJSONStrict(target), query.Validate())
		}
	}
}

// fits reports what the library found. Its error is not nil if it found nothing.
func fits(t *testing.T, what string, errs ...error) {
	t.Helper()
	for _, err := range errs {
		var found cog.BuildErrors
		if err != nil && (!errors.As(err, &found) || len(found) > 0) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
