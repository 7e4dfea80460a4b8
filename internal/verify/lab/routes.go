package lab

// route lists the neighbours by which a host reaches another host. Several have equal cost (ECMP).
type route struct {
	to   Host
	hops []string
}

// routes returns the shortest paths from one host to all others, as a routing protocol computes
// them after it has detected the links that are down. Clients and the machine never forward
// packets.
func (p *Plan) routes(from string, down map[Link]bool) []route {
	var all []route
	for _, to := range p.Hosts {
		if to.Name == from {
			continue
		}
		distance := p.distances(to.Name, down)
		own, reachable := distance[from]
		if !reachable {
			continue
		}
		r := route{to: to}
		for _, l := range p.Links {
			peer, ok := l.Peer(from)
			if d, reached := distance[peer]; ok && !down[l] && reached && d == own-1 {
				r.hops = append(r.hops, peer)
			}
		}
		all = append(all, r)
	}
	return all
}

// distances returns the number of links from every host to one (breadth first).
func (p *Plan) distances(to string, down map[Link]bool) map[string]int {
	distance := map[string]int{to: 0}
	for queue := []string{to}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if h, _ := p.Host(at); at != to && h.Role != RoleNode && h.Role != RoleSpine {
			continue
		}
		for _, l := range p.Links {
			peer, ok := l.Peer(at)
			if _, seen := distance[peer]; !ok || seen || down[l] {
				continue
			}
			distance[peer] = distance[at] + 1
			queue = append(queue, peer)
		}
	}
	return distance
}
