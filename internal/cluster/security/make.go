package security

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// authorityDir holds the authority's own key, below the directory that [Make] was given.
const authorityDir = "authority"

// early is how long before now a certificate begins, for clocks that are behind.
const early = time.Hour

// Make makes an authority in dir and an identity of every role below it, each in a directory named as the role. Hosts are
// the addresses and names at which controllers serve, which etcd checks between them. Nothing that exists is replaced.
func Make(dir string, hosts []string, valid time.Duration) error {
	if err := checkHosts(hosts); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, authorityDir)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has an authority already: use `netcraq certs renew`, or another directory", dir)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := templateOf(pkix.Name{CommonName: "netcraq authority"}, 10*valid)
	if err != nil {
		return err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	if err := store(filepath.Join(dir, authorityDir), der, key, nil); err != nil {
		return err
	}
	if err := issueAll(dir, hosts, valid); err != nil {
		return err
	}
	return Revoke(dir, nil) // nothing so far
}

// Renew makes new certificates of all roles with the authority in dir. Without hosts those of the present certificate stay.
func Renew(dir string, hosts []string, valid time.Duration) error {
	if err := checkHosts(hosts); err != nil {
		return err
	}
	if _, err := openAuthority(dir); err != nil {
		return err
	}
	if len(hosts) == 0 {
		var err error
		if hosts, err = Hosts(dir); err != nil {
			return fmt.Errorf("the certificate to renew, which has the controllers' addresses, cannot be read: restore it, or give "+
				"--controllers: %w", err)
		}
	}
	return issueAll(dir, hosts, valid)
}

// hostName matches names of hosts as certificates have them.
var hostName = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$`)

// checkHosts refuses a host that clients never find in a certificate, such as an address with a port.
func checkHosts(hosts []string) error {
	for _, host := range hosts {
		if net.ParseIP(host) == nil && !hostName.MatchString(host) {
			return fmt.Errorf("%q: want an IP address or the name of a host, without a port", host)
		}
	}
	return nil
}

// Hosts are the addresses and names in the controllers' certificate below dir.
func Hosts(dir string) ([]string, error) {
	der, err := readPEM(filepath.Join(dir, string(Controller), certFile))
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	hosts := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts, nil
}

func issueAll(dir string, hosts []string, valid time.Duration) error {
	a, err := openAuthority(dir)
	if err != nil {
		return err
	}
	for _, role := range Roles {
		if err := a.issue(dir, role, hosts, valid); err != nil {
			return fmt.Errorf("certificate of %s: %w", role, err)
		}
	}
	names, err := namedNodes(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := a.issueNode(dir, name, valid); err != nil {
			return fmt.Errorf("certificate of node %s: %w", name, err)
		}
	}
	return nil
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	der  []byte
	key  *ecdsa.PrivateKey
}

// openAuthority reads the authority below dir, that [Make] was given.
func openAuthority(dir string) (*authority, error) {
	dir = filepath.Join(dir, authorityDir)
	der, err := readPEM(filepath.Join(dir, certFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no authority: `netcraq certs make DIRECTORY` makes one: %w", filepath.Dir(dir), err)
	}
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	text, err := readPEM(filepath.Join(dir, keyFile))
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(text)
	if err != nil {
		return nil, err
	}
	return &authority{cert, der, key}, nil
}

func (a *authority) issue(dir string, role Role, hosts []string, valid time.Duration) error {
	var names x509.Certificate
	if role == Controller {
		for _, host := range hosts {
			if ip := net.ParseIP(host); ip != nil {
				names.IPAddresses = append(names.IPAddresses, ip)
			} else {
				names.DNSNames = append(names.DNSNames, host)
			}
		}
	}
	return a.issueTo(filepath.Join(dir, string(role)), role, &names, valid)
}

// issueTo makes an identity in a directory. Its certificate has the alternative names of another.
func (a *authority) issueTo(dir string, role Role, names *x509.Certificate, valid time.Duration) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := templateOf(pkix.Name{CommonName: "netcraq " + string(role), OrganizationalUnit: []string{string(role)}}, valid)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if role.serves() {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	template.IPAddresses, template.DNSNames, template.URIs = names.IPAddresses, names.DNSNames, names.URIs
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return store(dir, der, key, a.der)
}

func templateOf(name pkix.Name, valid time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{Subject: name, SerialNumber: serial, NotBefore: now.Add(-early), NotAfter: now.Add(valid)}, nil
}

// store writes an identity. It writes the certificate last, so that a reader of a new certificate finds its key.
func store(dir string, der []byte, key *ecdsa.PrivateKey, authority []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, keyFile), "EC PRIVATE KEY", secret); err != nil {
		return err
	}
	if authority != nil {
		if err := writePEM(filepath.Join(dir, authorityFile), "CERTIFICATE", authority); err != nil {
			return err
		}
	}
	return writePEM(filepath.Join(dir, certFile), "CERTIFICATE", der)
}

func writePEM(path, kind string, der []byte) error {
	return replace(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// replace replaces a file atomically.
func replace(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func readPEM(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s is not in PEM format", path)
	}
	return block.Bytes, nil
}
