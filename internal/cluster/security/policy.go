package security

import (
	"slices"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/api/controllerv1"
)

// Sets of roles.
var (
	anybody   = Roles
	operators = []Role{Admin, Operator}
)

// Calls lists the roles that may make each call. A call that is not listed is forbidden.
type Calls map[string][]Role

// allowed are the calls of the cluster's own services.
var allowed = Calls{
	agentv1.Agent_Info_FullMethodName:      anybody,
	agentv1.Agent_Shards_FullMethodName:    anybody,
	agentv1.Agent_Counters_FullMethodName:  anybody,
	agentv1.Agent_Usage_FullMethodName:     anybody,
	agentv1.Agent_Object_FullMethodName:    anybody,
	agentv1.Agent_Uses_FullMethodName:      anybody,
	agentv1.Agent_Standing_FullMethodName:  anybody,
	agentv1.Agent_Metrics_FullMethodName:   anybody, // as the page of --metrics
	agentv1.Agent_Reach_FullMethodName:     operators,
	agentv1.Agent_Configure_FullMethodName: {Controller, Admin},
	agentv1.Agent_Grant_FullMethodName:     {Controller, Admin},
	agentv1.Agent_Export_FullMethodName:    {Node, Admin, Operator},

	controllerv1.Controller_Attend_FullMethodName:      {Node},
	controllerv1.Controller_Map_FullMethodName:         anybody,
	controllerv1.Controller_Keys_FullMethodName:        anybody,
	controllerv1.Controller_Fence_FullMethodName:       {Controller},
	controllerv1.Controller_Status_FullMethodName:      anybody,
	controllerv1.Controller_Plan_FullMethodName:        anybody,
	controllerv1.Controller_Controllers_FullMethodName: anybody,
	controllerv1.Controller_Operate_FullMethodName:     operators,
	controllerv1.Controller_Keyspace_FullMethodName:    anybody,
	controllerv1.Controller_SetKeyspace_FullMethodName: operators, // gateways
	controllerv1.Controller_GiveUpDisks_FullMethodName: {Admin},
	controllerv1.Controller_Metrics_FullMethodName:     anybody, // as the page of --metrics
}

// adminOnly reports whether a request to operate may lose something: copies, or data.
func adminOnly(request any) bool {
	if members, ok := request.(*controllerv1.ControllersRequest); ok {
		return members.GetReplace() != "" || members.GetRemove() != "" || members.GetAdd() != nil
	}
	r, ok := request.(*controllerv1.OperateRequest)
	if !ok {
		return false
	}
	switch r.GetKind().(type) {
	case *controllerv1.OperateRequest_Remove, *controllerv1.OperateRequest_Replicas, *controllerv1.OperateRequest_AcceptLoss,
		*controllerv1.OperateRequest_Times:
		return true
	}
	return false
}

// may reports whether a role may make a call with a request; request is nil for streams.
func may(role Role, method string, request any, others []Calls) bool {
	if adminOnly(request) {
		return role == Admin
	}
	return slices.ContainsFunc(append(others[:len(others):len(others)], allowed), func(calls Calls) bool {
		return slices.Contains(calls[method], role)
	})
}
