package chain

// Collectable reports whether a member with this configuration may delete an object (G4). What is at or below the bar is
// committed on the whole chain.
func (c *ShardConfig) Collectable(o *Object, without Rule) bool {
	if c.State != Active || c.Learner {
		return false
	}
	return o.Version == 0 || o.Tombstone && (o.Version <= c.Bar || without&G4 != 0)
}

// Settled reports whether a member with this configuration knows that an object is committed: it is clean, or the member
// is an active tail (C2).
func (c *ShardConfig) Settled(o *Object) bool { return o.Clean() || c.Tail() && c.State == Active }
