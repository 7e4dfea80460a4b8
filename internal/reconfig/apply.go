package reconfig

// Apply makes the state what it is after a change. It checks nothing: see [State.Check].
func (s *State) Apply(c Change) {
	for i := range c.Nodes {
		n := c.Nodes[i]
		s.Nodes[n.ID] = &n
	}
	for shard, next := range c.Shards {
		s.Shards[shard] = next
	}
	if c.Replicas != 0 {
		s.Settings.Replicas = c.Replicas
	}
	s.Change = c.Number
}
