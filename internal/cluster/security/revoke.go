package security

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// revokedFile is the list of revoked certificates: signed by the authority, in DER as etcd reads it too.
const revokedFile = "revoked.crl"

// ErrRevoked says that a certificate is on the list of revoked ones.
var ErrRevoked = errors.New("the certificate was revoked")

// errOldAuthority says that an authority was made before there were lists.
var errOldAuthority = errors.New("the authority may not sign lists of revoked certificates: an earlier version made it; " +
	"make a new one with `netcraq certs make`")

// Revoke puts certificates on the list of the authority in dir, and the list into the directory of each role. It takes effect
// where it is copied to, without a restart.
func Revoke(dir string, certs []string) error {
	a, err := openAuthority(dir)
	if err != nil {
		return err
	}
	list, err := readRevoked(filepath.Join(dir, authorityDir, revokedFile), a.cert)
	if err != nil {
		return err
	}
	for _, path := range certs {
		der, err := readPEM(path)
		if err != nil {
			return err
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := cert.CheckSignatureFrom(a.cert); err != nil {
			return fmt.Errorf("%s is not of the authority in %s: %w", path, dir, err)
		}
		if !list.has(cert.SerialNumber) {
			list.entries = append(list.entries, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: time.Now()})
		}
	}
	return a.publish(dir, list)
}

// publish signs a list, which is newer than the one before, and puts it beside the authority and every identity.
func (a *authority) publish(dir string, list *revoked) error {
	if a.cert.KeyUsage&x509.KeyUsageCRLSign == 0 {
		return errOldAuthority
	}
	now := time.Now()
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: new(big.Int).Add(list.number, big.NewInt(1)), RevokedCertificateEntries: list.entries,
		ThisUpdate: now, NextUpdate: a.cert.NotAfter,
	}, a.cert, a.key)
	if err != nil {
		return err
	}
	dirs := []string{filepath.Join(dir, authorityDir)}
	for _, role := range Roles {
		dirs = append(dirs, filepath.Join(dir, string(role)))
	}
	names, err := namedNodes(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		dirs = append(dirs, NodeDir(dir, name))
	}
	for _, each := range dirs {
		if err := replace(filepath.Join(each, revokedFile), der); err != nil {
			return err
		}
	}
	return nil
}

// revoked is a list of revoked certificates.
type revoked struct {
	number  *big.Int
	entries []x509.RevocationListEntry
}

func (r *revoked) has(serial *big.Int) bool {
	for i := range r.entries {
		if r.entries[i].SerialNumber.Cmp(serial) == 0 {
			return true
		}
	}
	return false
}

// readRevoked reads a list that the authority signed. One that does not exist is empty.
func readRevoked(path string, authority *x509.Certificate) (*revoked, error) {
	der, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &revoked{number: new(big.Int)}, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := x509.ParseRevocationList(der)
	if err == nil {
		err = list.CheckSignatureFrom(authority)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &revoked{list.Number, list.RevokedCertificateEntries}, nil
}
