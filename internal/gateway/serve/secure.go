package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/tlsutil"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"
)

// TowardsEtcd names the gateway's certificate towards etcd, as files. The zero value is none.
type TowardsEtcd struct {
	Cert, Key, CA string
	SkipVerify    bool // take any certificate of etcd
}

// Config is nil if nothing is said about certificates. A certificate's common name must be empty: etcd takes it for the user.
func (c *TowardsEtcd) Config() (*tls.Config, error) {
	if *c == (TowardsEtcd{}) {
		return nil, nil
	}
	info := transport.TLSInfo{TrustedCAFile: c.CA, CertFile: c.Cert, KeyFile: c.Key, EmptyCN: c.Cert != ""}
	config, err := info.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the gateway's own certificate (--cert, --key, --cacert): %w", err)
	}
	config.InsecureSkipVerify = c.SkipVerify
	return config, nil
}

// TowardsClients names certificates towards clients, as files. The zero value is none.
type TowardsClients struct {
	Cert, Key   string
	CA          string // of clients' certificates
	Revoked     string // a list of clients' certificates
	Ciphers     []string
	Least, Most string // versions of TLS, as "TLS1.2"; empty: Go's
	Auto        bool   // make a certificate
	Dir         string // where it is kept
	Years       uint   // for which it is valid
}

// Config is nil if no certificates are configured. A certificate that it makes is for an address.
func (c *TowardsClients) Config(address net.Addr) (*tls.Config, error) {
	var info transport.TLSInfo
	switch {
	case c.CA != "" || c.Cert != "" || c.Key != "":
		info = transport.TLSInfo{TrustedCAFile: c.CA, CertFile: c.Cert, KeyFile: c.Key}
	case c.Auto && c.Years == 0:
		return nil, errors.New("a certificate is valid for at least one year (--self-signed-cert-validity)")
	case c.Auto:
		var err error
		dir := filepath.Join(c.Dir, "fixtures", "proxy")
		if info, err = transport.SelfCert(zap.NewNop(), dir, []string{"https://" + address.String()}, c.Years); err != nil {
			return nil, fmt.Errorf("the certificate of --auto-tls: %w", err)
		}
	default:
		return nil, nil
	}
	info.CRLFile = c.Revoked
	var err error
	if len(c.Ciphers) > 0 {
		if info.CipherSuites, err = tlsutil.GetCipherSuites(c.Ciphers); err != nil {
			return nil, fmt.Errorf("--listen-cipher-suites: %w", err)
		}
	}
	if info.MinVersion, err = tlsutil.GetTLSVersion(c.Least); err != nil {
		return nil, fmt.Errorf("--tls-min-version: %w", err)
	}
	if info.MaxVersion, err = tlsutil.GetTLSVersion(c.Most); err != nil {
		return nil, fmt.Errorf("--tls-max-version: %w", err)
	}
	if info.Empty() {
		return nil, errors.New("clients' certificates are checked with TLS only: name the gateway's certificate with " +
			"--cert-file and --key-file")
	}
	secure, err := info.ServerConfig()
	if err != nil {
		return nil, fmt.Errorf("certificates towards clients (--cert-file, --key-file, --trusted-ca-file): %w", err)
	}
	info.ConfigureCRLVerification(secure)
	return secure, nil
}

// Encrypts reports whether clients use TLS.
func (c *TowardsClients) Encrypts() bool { return c.Cert != "" || c.Key != "" || c.CA != "" || c.Auto }
