package kubernetes

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/csv"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validFor is the time for which the API server's certificate is valid. A cluster is for tests.
const validFor = 365 * 24 * time.Hour

// user is a program or a person, as the API server knows them.
type user struct {
	name   string
	groups string
	token  string
	config string // file below the cluster's directory
}

// newUsers returns all users with new tokens.
func newUsers() []user {
	users := []user{
		{name: "admin", groups: "system:masters", config: "kubeconfig"},
		{name: "system:kube-controller-manager", config: "kube-controller-manager"},
		{name: "system:kube-scheduler", config: "kube-scheduler"},
	}
	for _, h := range workerHosts() {
		users = append(users, user{name: "system:node:" + h.name, groups: "system:nodes",
			config: filepath.Join(h.name, "kubeconfig")})
	}
	for i := range users {
		users[i].token = rand.Text()
	}
	return users
}

// writeCredentials writes the API server's certificate, the key that signs tokens of service accounts, and the users'
// tokens and configurations.
func writeCredentials(dir string) error {
	users := newUsers()
	if err := writeTokens(dir, users); err != nil {
		return err
	}
	account, err := newKey()
	if err != nil {
		return err
	}
	serving, err := newKey()
	if err != nil {
		return err
	}
	cert, err := certify(serving)
	if err != nil {
		return err
	}
	if err := writePEM(dir, apiCert, "CERTIFICATE", cert); err != nil {
		return err
	}
	for file, key := range map[string]*ecdsa.PrivateKey{accountKey: account, apiKey: serving} {
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return err
		}
		if err := writePEM(dir, file, "EC PRIVATE KEY", der); err != nil {
			return err
		}
	}
	return writeConfigs(dir, users, cert)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func writePEM(dir, file, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(dir, file), pemOf(kind, der), 0o600)
}

// certify returns a certificate of the API server that is its own authority.
func certify(key *ecdsa.PrivateKey) ([]byte, error) {
	service, _, err := net.ParseCIDR(serviceNet)
	if err != nil {
		return nil, err
	}
	service[len(service)-1]++ // the address of the API server's own service
	now := time.Now()
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "netcraq-lab"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validFor), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP(controlAddr), service},
		DNSNames:    []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"}}
	return x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
}

// writeTokens writes the users' tokens for the API server.
func writeTokens(dir string, users []user) error {
	var tokens bytes.Buffer
	lines := csv.NewWriter(&tokens)
	for _, u := range users {
		if err := lines.Write([]string{u.token, u.name, u.name, u.groups}); err != nil {
			return err
		}
	}
	lines.Flush()
	return os.WriteFile(filepath.Join(dir, tokenFile), tokens.Bytes(), 0o600)
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
  - name: lab
    cluster: {server: "https://%s:%d", certificate-authority-data: %s}
users:
  - name: %q
    user: {token: %q}
contexts:
  - name: lab
    context: {cluster: lab, user: %q}
current-context: lab
`

// writeConfigs writes the users' configurations.
func writeConfigs(dir string, users []user, cert []byte) error {
	authority := base64.StdEncoding.EncodeToString(pemOf("CERTIFICATE", cert))
	for _, u := range users {
		text := fmt.Sprintf(kubeconfig, controlAddr, apiPort, authority, u.name, u.token, u.name)
		if err := os.WriteFile(filepath.Join(dir, u.config), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
