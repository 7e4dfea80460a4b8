package bench

import (
	"context"
	"time"
)

// Congestion is background traffic through some nodes of a line, each of which can take only so many frames.
type Congestion struct{}

func (c *Congestion) validate() error { return nil }

func (l *Line) congested(ctx context.Context, w Work, d time.Duration) (LineFigure, error) {
	return LineFigure{}, nil
}
