package wire

import (
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "palyra/api/gen/palyra/v1"
)

// Access says who may call a method, as its option in the protocol says.
type Access struct {
	Method     string // palyra.v1.ApprovalsService/DecideApproval
	Permission string
	Signed     bool // a person must sign
	People     bool // open to people
	Agents     bool // open to agents
}

// AccessOf reads the option of a method. It reports false when there is none,
// or when the option leaves the method open to nobody.
func AccessOf(spec connect.Spec) (Access, bool) {
	md, ok := spec.Schema.(protoreflect.MethodDescriptor)
	if !ok || md == nil {
		return Access{}, false
	}
	opt, ok := proto.GetExtension(md.Options(), v1.E_Access).(*v1.Access)
	if !ok || opt.GetPermission() == "" || len(opt.GetDoors()) == 0 {
		return Access{}, false
	}
	return Access{
		Method:     strings.TrimPrefix(spec.Procedure, "/"),
		Permission: opt.GetPermission(),
		Signed:     opt.GetSigned(),
		People:     slices.Contains(opt.GetDoors(), v1.DoorKind_DOOR_KIND_OPERATOR),
		Agents:     slices.Contains(opt.GetDoors(), v1.DoorKind_DOOR_KIND_AGENT),
	}, true
}

// PlanDigest returns the plan digest that a request names, or "".
func PlanDigest(m proto.Message) string {
	r := m.ProtoReflect()
	fd := r.Descriptor().Fields().ByName("plan_digest")
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return ""
	}
	return r.Get(fd).String()
}
