package deployment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/verify/kubernetes"
)

// Options describe an experiment.
type Options struct {
	Cluster  kubernetes.Options
	Serving  []kubernetes.Serving // compared in turn
	Pods     int                  // that the Deployment has at most
	First    int                  // that it has before
	Hold     time.Duration        // for which it has all of them
	Requests int                  // to the API server, one after the other, for their latency
	Lists    time.Duration        // for which consistent lists are measured; 0: not at all
	Rounds   int
	Progress func(string)
}

// Defaults are the figures of the paper.
func Defaults() Options {
	o := Options{Pods: 25, First: 2, Hold: 10 * time.Second, Requests: 200, Lists: 10 * time.Second, Rounds: 3}
	for _, store := range kubernetes.Stores {
		o.Serving = append(o.Serving, kubernetes.Serving{Store: store})
	}
	return o
}

// Validate returns an error for an experiment that is not possible.
func (o *Options) Validate() error {
	switch {
	case o.First < 1 || o.Pods <= o.First || o.Pods > 100:
		return fmt.Errorf("%d to %d pods: want at least 1, then more, and at most 100", o.First, o.Pods)
	case o.Rounds < 1, o.Requests < 1:
		return errors.New("want at least one round, and one request")
	case len(o.Serving) == 0 || slices.ContainsFunc(o.Serving, func(s kubernetes.Serving) bool {
		return !slices.Contains(kubernetes.Stores, s.Store)
	}):
		return fmt.Errorf("want stores among %v", kubernetes.Stores)
	}
	return nil
}

func (o *Options) say(format string, arguments ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, arguments...))
	}
}
