package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/internal/gateway/pages"
)

// GatewayListen is the address at which gateways listen by default.
const GatewayListen = "127.0.0.1:23790"

// gatewayWithin is how long gateways may take to answer by default.
const gatewayWithin = 5 * time.Second

// GatewayFlags name the gateways whose pages a command reads, and the certificates towards them.
type GatewayFlags struct {
	pages.Client
	cert, key, authority string
}

// Add defines the flags.
func (g *GatewayFlags) Add(f *pflag.FlagSet) {
	g.Timeout = gatewayWithin
	f.StringSliceVar(&g.Gateways, "gateways", []string{GatewayListen},
		"gateways: host:port, or http:// or https:// and an address of --listen or --metrics-addr")
	f.StringVar(&g.cert, "cert", "", "certificate for gateways that ask their clients for one")
	f.StringVar(&g.key, "key", "", "key of --cert")
	f.StringVar(&g.authority, "cacert", "", "authorities that sign the gateways' certificates (default: the system's)")
}

// Load reads the certificates.
func (g *GatewayFlags) Load() (err error) {
	g.TLS, err = CertificatesOf(g.cert, g.key, g.authority)
	return err
}

// CertificatesOf reads the files that --cert, --key and --cacert name, for connections to gateways. Empty names none.
func CertificatesOf(cert, key, authority string) (*tls.Config, error) {
	config := new(tls.Config)
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, UsageError(fmt.Errorf("--cert and --key: %w", err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if authority != "" {
		text, err := os.ReadFile(authority)
		if err != nil {
			return nil, UsageError(fmt.Errorf("--cacert: %w", err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, UsageError(fmt.Errorf("--cacert: %s holds no certificate", authority))
		}
	}
	return config, nil
}

// WarnGateways names gateways that did not answer, beside the answers of others.
func WarnGateways(out io.Writer, failed []pages.Failure) {
	for _, f := range failed {
		fmt.Fprintf(out, "netcraq: left out: %s\n", f.Reason)
	}
}
