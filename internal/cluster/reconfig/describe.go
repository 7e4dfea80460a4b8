package reconfig

import "fmt"

// Describe returns a command as an operator reads it in a log.
func Describe(command Command) string {
	switch c := command.(type) {
	case Drain:
		return "drain node " + c.Node
	case Undrain:
		return "undrain node " + c.Node
	case Cordon:
		return "drain node " + c.Node + " while its machine is cordoned"
	case Uncordon:
		return "undrain node " + c.Node + ", whose machine is not cordoned any more"
	case Remove:
		return "remove node " + c.Node
	case Fail:
		return "fail node " + c.Node
	case Replicas:
		return fmt.Sprintf("%d members in every chain", c.Members)
	case MoveShard:
		return fmt.Sprintf("move shard %d from node %s to %s", c.Shard, c.From, c.To)
	case Resize:
		return fmt.Sprintf("give the chain of shard %d %d members more than others", c.Shard, c.Extra)
	case HandOver:
		return fmt.Sprintf("hand the head of shard %d over from node %s", c.Shard, c.From)
	case AcceptLoss:
		return fmt.Sprintf("begin shard %d anew, empty", c.Shard)
	case SetTimes:
		return fmt.Sprintf("set times %+v", c.Times)
	case SetTags:
		return fmt.Sprintf("set tags to %t", c.On)
	case RaiseFloor:
		return fmt.Sprintf("raise the floor of all shards to %d", c.Floor)
	}
	return fmt.Sprintf("%T%+v", command, command)
}
