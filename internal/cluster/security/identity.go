package security

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/platform/trust"
)

// Names of the files in an identity's directory.
const (
	certFile      = "cert.pem"
	keyFile       = "key.pem"
	authorityFile = "ca.pem"
)

// Identity is the identity of this process. The nil Identity is that of a cluster without security: connections are open and
// everybody may do everything.
type Identity struct {
	dir      string
	refusals *Refusals

	mutex    sync.Mutex
	modified [2]time.Time // of the certificate and the list of revoked ones in use
	loaded   *loaded
}

// loaded is the content of an identity's files when they were last read.
type loaded struct {
	pair    tls.Certificate
	roots   *x509.CertPool
	revoked *revoked
}

// Load reads an identity from a directory that [Make] has made. An empty name is the nil Identity. A certificate that
// is replaced while the process runs, by one that is valid longer, is used for the next connection.
func Load(dir string) (*Identity, error) {
	if dir == "" {
		return nil, nil
	}
	i := &Identity{dir: dir, refusals: new(Refusals)}
	if _, err := i.current(); err != nil {
		return nil, err
	}
	return i, nil
}

// Refusals counts the connections and calls that this identity has refused.
func (i *Identity) Refusals() *Refusals {
	if i == nil {
		return new(Refusals)
	}
	return i.refusals
}

// Files are the paths of the identity's certificate, key and authority, for servers that read them themselves.
func (i *Identity) Files() (cert, key, authority string) { return Files(i.dir) }

// Files are the paths of the certificate, key and authority in an identity's directory.
func Files(dir string) (cert, key, authority string) {
	return filepath.Join(dir, certFile), filepath.Join(dir, keyFile), filepath.Join(dir, authorityFile)
}

// Revoked is the path of the list of revoked certificates, which need not exist.
func (i *Identity) Revoked() string { return filepath.Join(i.dir, revokedFile) }

// times tells when the certificate and the list of revoked ones were changed.
func (i *Identity) times() (times [2]time.Time, err error) {
	cert, err := os.Stat(filepath.Join(i.dir, certFile))
	if err != nil {
		return times, err
	}
	times[0] = cert.ModTime()
	list, err := os.Stat(i.Revoked())
	if errors.Is(err, fs.ErrNotExist) {
		return times, nil
	}
	if err == nil {
		times[1] = list.ModTime()
	}
	return times, err
}

// current returns the identity in the files. If they cannot be read, it returns the previous one.
func (i *Identity) current() (*loaded, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	modified, err := i.times()
	if err == nil && i.loaded != nil && modified == i.modified {
		return i.loaded, nil
	}
	var next *loaded
	if err == nil {
		next, err = i.read()
	}
	switch {
	case err == nil:
		i.loaded, i.modified = next, modified
	case i.loaded == nil:
		return nil, explain(i.dir, err)
	}
	return i.loaded, nil
}

func (i *Identity) read() (*loaded, error) {
	cert, key, authority := i.Files()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	if err := trust.CheckSecret(key); err != nil {
		return nil, err
	}
	l := &loaded{pair: pair, roots: x509.NewCertPool()}
	if !l.roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", authority)
	}
	signer, err := readPEM(authority)
	if err != nil {
		return nil, err
	}
	root, err := x509.ParseCertificate(signer)
	if err != nil {
		return nil, err
	}
	if l.revoked, err = readRevoked(i.Revoked(), root); err != nil {
		return nil, err
	}
	if _, err := l.judge(pair.Leaf); err != nil {
		return nil, err
	}
	return l, nil
}

// judge returns the role in a certificate of the cluster.
func (l *loaded) judge(cert *x509.Certificate) (Role, error) {
	_, err := cert.Verify(x509.VerifyOptions{Roots: l.roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return "", err
	}
	if l.revoked.has(cert.SerialNumber) {
		return "", ErrRevoked
	}
	return parseRole(cert.Subject.OrganizationalUnit)
}

func explain(dir string, err error) error {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is no identity (%w): make some with `netcraq certs make`, and give one role's directory", dir, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the certificate in %s is not valid now (%w): make a new one with `netcraq certs renew`", dir, err)
	}
	return fmt.Errorf("identity %s: %w", dir, err)
}
