package topology

import "math"

// Slack is how far a node may be from its fair share before [Ring.Plan] moves shards for balance alone.
const Slack = 0.05

// share is how many shards a node should have and may have.
type share struct {
	fair        float64
	least, most int // beyond these, shards move
}

// shares divides total places in chains by capacity, as far as failure domains allow: a domain has at most domainLimit of them, and
// a node at most one in each of the shards.
func (r *Ring) shares(total, shards, domainLimit int) []share {
	capacity, limit, members := make([]float64, r.domains), make([]float64, r.domains), make([]float64, r.domains)
	for i, n := range r.nodes {
		capacity[r.domain[i]] += float64(n.Capacity)
		members[r.domain[i]]++
	}
	for d := range limit {
		limit[d] = min(float64(domainLimit), members[d]*float64(shards))
	}
	shares := make([]share, len(r.nodes))
	for d, part := range divide(float64(total), capacity, limit) {
		var nodes []int
		var capacity, limit []float64
		for i, n := range r.nodes {
			if r.domain[i] == d {
				nodes, capacity, limit = append(nodes, i), append(capacity, float64(n.Capacity)), append(limit, float64(shards))
			}
		}
		for k, fair := range divide(part, capacity, limit) {
			shares[nodes[k]] = share{fair, int(math.Floor(fair * (1 - Slack))), int(math.Ceil(fair * (1 + Slack)))}
		}
	}
	return shares
}

// divide distributes total in proportion to the weights, and gives none more than its limit. The rest goes to those below
// their limits. If all are at their limits, a remainder is left.
func divide(total float64, weight, limit []float64) []float64 {
	parts := make([]float64, len(weight))
	full := make([]bool, len(weight))
	for {
		left, open := total, 0.0
		for i := range weight {
			if full[i] {
				left -= parts[i]
			} else {
				open += weight[i]
			}
		}
		again := false
		for i := range weight {
			if !full[i] {
				parts[i] = left * weight[i] / open
				if parts[i] > limit[i] {
					parts[i], full[i], again = limit[i], true, true
				}
			}
		}
		if !again {
			return parts
		}
	}
}
