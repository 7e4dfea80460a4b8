package pages

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestGatewayThatDoesNotAnswer: the error is in the words of the product.
func TestGatewayThatDoesNotAnswer(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for address, want := range map[string]string{
		"127.0.0.1:1":          "nothing answers there: is it running?",
		mute.Addr().String():   "no answer in time",
		"http://no.such.host.": "the name no.such.host. has no address",
	} {
		c := Client{Gateways: []string{address}, Timeout: time.Second}
		_, failed, err := c.Hottest(t.Context(), 1)
		if err == nil || len(failed) != 1 || !strings.Contains(err.Error(), "the gateway "+address+" does not answer: "+want) {
			t.Errorf("%s: %v, want %s", address, err, want)
			continue
		}
		if strings.Contains(err.Error(), "Get \"") || strings.Contains(err.Error(), "connect: ") {
			t.Errorf("%s: the libraries' words: %v", address, err)
		}
	}
}
