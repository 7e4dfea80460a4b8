package p4runtime

import (
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
)

// batchError is the status of a batch: nil if all went well, otherwise what came of each part, in their order.
func batchError(what string, parts []error) error {
	failed := false
	details := make([]protoadapt.MessageV1, len(parts))
	for i, err := range parts {
		e := new(p4v1.Error)
		if err != nil {
			failed = true
			s := status.Convert(err)
			e.CanonicalCode, e.Message = int32(s.Code()), s.Message()
		}
		details[i] = protoadapt.MessageV1Of(e)
	}
	if !failed {
		return nil
	}
	s, err := status.New(codes.Unknown, what).WithDetails(details...)
	if err != nil {
		return status.Errorf(codes.Internal, "%s: %v", what, err)
	}
	return s.Err()
}
