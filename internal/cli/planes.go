package cli

// Kinds of planes that a user may ask for.
const (
	PlaneAuto = "auto"
	PlaneSoft = "soft"
	PlaneXDP  = "xdp"
	PlaneP4   = "p4"
)
