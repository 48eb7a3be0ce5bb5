package wire

import (
	"slices"

	"palyra"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "palyra/api/gen/palyra/v1"
)

// Access says who may call a method, as its option in the protocol says.
type Access struct {
	Method     string // palyra.v1.ApprovalsService/DecideApproval
	Permission palyra.Permission
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
	return accessOf(md)
}

func accessOf(md protoreflect.MethodDescriptor) (Access, bool) {
	opt, ok := proto.GetExtension(md.Options(), v1.E_Access).(*v1.Access)
	if !ok || opt.GetPermission() == "" || len(opt.GetDoors()) == 0 {
		return Access{}, false
	}
	return Access{
		Method:     string(md.Parent().FullName()) + "/" + string(md.Name()),
		Permission: palyra.Permission(opt.GetPermission()),
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

// Inner returns the message that a message of RunStream carries, and who may send it: whoever may call the method
// whose request it is. It reports false when there is none.
func Inner(m *v1.RunStreamRequest) (Access, proto.Message, bool) {
	r := m.ProtoReflect()
	fd := r.WhichOneof(r.Descriptor().Oneofs().ByName("message"))
	if fd == nil {
		return Access{}, nil, false
	}
	for _, file := range []protoreflect.FileDescriptor{v1.File_palyra_v1_run_proto, v1.File_palyra_v1_approvals_proto} {
		for i := range file.Services().Len() {
			if md, ok := takes(file.Services().Get(i), fd.Message().FullName()); ok {
				a, ok := accessOf(md)
				return a, r.Get(fd).Message().Interface(), ok
			}
		}
	}
	return Access{}, nil, false
}

// takes finds the method of a service that takes one request of a type.
func takes(svc protoreflect.ServiceDescriptor, request protoreflect.FullName) (protoreflect.MethodDescriptor, bool) {
	for i := range svc.Methods().Len() {
		md := svc.Methods().Get(i)
		if md.Input().FullName() == request && !md.IsStreamingClient() {
			return md, true
		}
	}
	return nil, false
}
