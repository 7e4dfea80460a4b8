package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/finding"
)

// WallClock finds whether the kernel's clock is synchronised. Leases do not depend on it; certificates and logs do.
func WallClock() finding.Finding {
	f := finding.Finding{Check: "wall clock", State: finding.OK, Text: "synchronised"}
	var t unix.Timex
	state, err := unix.ClockAdjtime(unix.CLOCK_REALTIME, &t)
	switch {
	case err != nil:
		f.State, f.Text = finding.Unknown, err.Error()
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		f.State, f.Text = finding.Warning, "not synchronised: certificates may seem to have ended, or not to have begun"
		f.Remedy = "run chrony or systemd-timesyncd"
	}
	return f
}

// endsSoon is how long before its end a certificate is to be replaced.
const endsSoon = 30 * 24 * time.Hour

// Certificates finds certificates in files that have ended or soon will.
func Certificates(now time.Time, files ...string) (list []finding.Finding) {
	for _, file := range files {
		list = append(list, certificate(now, file))
	}
	return list
}

func certificate(now time.Time, file string) finding.Finding {
	f := finding.Finding{Check: "certificate", About: file, State: finding.Broken, Remedy: "make another with netcraq certs, or as this one was made"}
	text, err := os.ReadFile(file)
	if err != nil {
		f.Text = err.Error()
		return f
	}
	var first *x509.Certificate // to end
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			f.Text = err.Error()
			return f
		}
		if first == nil || c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	if first == nil {
		f.Text = "the file has no certificate"
		return f
	}
	end := first.NotAfter.Format(time.DateOnly)
	switch left := first.NotAfter.Sub(now); {
	case left <= 0:
		f.Text = "it ended on " + end
	case now.Before(first.NotBefore):
		f.Text = "it begins on " + first.NotBefore.Format(time.DateOnly)
	case left < endsSoon:
		f.State, f.Text = finding.Warning, fmt.Sprintf("it ends on %s, in %d days", end, left/(24*time.Hour))
	default:
		f.State, f.Text, f.Remedy = finding.OK, "it ends on "+end, ""
	}
	return f
}
