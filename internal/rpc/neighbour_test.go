package rpc_test

import (
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"palyra"
	"palyra/internal/rpc"
)

// elsewhere is a workspace that those who are bound do not reach; whatever is told
// of it is told to the wrong one. beside ends the names of columns in which what
// there is belongs to somebody next to the caller.
const (
	elsewhere = "/elsewhere"
	beside    = ", beside another"
)

// neighbours are callers next to whose own work there is somebody else's, that goes by
// the same name: of another workspace, outside the room, with another credential.
func (c *crowded) neighbours() {
	none := with(nil)
	agent := with(http.Header{rpc.DoorHeader: {"agent"}})
	c.room()
	c.add("room/inside", nil, none)
	c.place("room/inside"+beside, none, func(w rpc.Caller) (palyra.Proposal, string) {
		return palyra.Proposal{Proposer: palyra.Proposer{
			Principal: w.Principal, Origin: w.Origin, Credential: w.CredentialID,
			Within: []string{elsewhere},
		}}, elsewhere
	})
	c.add("operator/person's command", nil, agent)
	c.place("operator/person's command"+beside, agent, func(rpc.Caller) (palyra.Proposal, string) {
		return palyra.Proposal{Proposer: palyra.Proposer{Principal: "agent:local", Credential: "agent:local"}}, elsewhere
	})
	_, token, err := c.registry.AddToken(c.t.Context(),
		palyra.Token{Name: "bound", Principal: "agent:ci", Scopes: allAgents, Workspaces: []string{"/w"}}, time.Hour, c.by())
	c.must(err)
	var text string
	_ = token.Use(func(b []byte) error { text = string(b); return nil })
	far := func(w rpc.Caller) (palyra.Proposal, string) { // its own, made when it reached more
		return palyra.Proposal{Proposer: palyra.Proposer{Principal: w.Principal, Credential: w.CredentialID}}, elsewhere
	}
	c.place("agent/agent token of one workspace"+beside, with(bearer(text)), far)
	c.place("operator/agent token of one workspace"+beside, with(bearer(text)), far)
	_, second := c.apiToken("agent:ci", 0, time.Hour, allAgents...)
	c.place("agent/agent's second token"+beside, with(bearer(second)), func(w rpc.Caller) (palyra.Proposal, string) {
		return palyra.Proposal{Proposer: palyra.Proposer{Principal: w.Principal, Credential: "token:first"}}, "/w"
	})
	bound := c.person("neighbour", palyra.RoleOwner)
	_, err = c.registry.ChangeUser(c.t.Context(),
		palyra.User{Principal: "user:neighbour", Role: palyra.RoleOwner, Workspaces: []string{"/w"}}, c.by())
	c.must(err)
	c.place("operator/signed by owner of one workspace"+beside, c.signed(bound), far)
}

// place adds a column in which what there is belongs to somebody else.
func (c *crowded) place(name string, head func(method, proto.Message) http.Header, whose func(rpc.Caller) (palyra.Proposal, string)) {
	c.columns = append(c.columns, column{name: name, head: head, whose: whose})
}

// room opens a run's own door.
func (c *crowded) room() {
	l, err := net.Listen("unix", c.socket("room"))
	c.must(err)
	stop := c.server.ServeAgent(l, rpc.AgentSocket{
		Call: "01ROOM", Agent: palyra.Agent{Principal: "agent:local", Owner: "user:alice"}, UID: int64(os.Geteuid()),
		Line: []palyra.CallID{"01ROOM"}, Origin: "agent:user.alice", Within: []string{"/w"},
	})
	c.t.Cleanup(stop)
}

// What every method has to do with the work of others. A method that is in none of
// these lists has no rule, and fails.
var (
	// named tell of, or change, the one call, run or question that the request names.
	seeOne  = []string{"GetCall", "WatchCall", "CancelCall", "GetChanges", "GetRun", "AttachRun", "CancelRun", "GetApproval", "DecideApproval"}
	feedOne = []string{"SendInput", "SendRunInput"}
	// lists tell of those that the caller reaches.
	lists = []string{"ListCalls", "ListRuns", "ListApprovals", "WatchApprovals"}
	// anew begin something of the caller's own, within its bounds. The messages of a
	// RunStream are each of another method.
	anew = []string{"CallTool", "CheckCall", "StartRun", "RunStream"}
	// general tell of nobody's work: what there is and who is known. ExplainCall holds
	// its caller's bounds against the call it is asked about, where that is found.
	general = []string{
		"ListTools", "GetTool", "GetStatus", "WhoAmI", "ListAgents", "ListOperators", "ListRoles", "ListTokens", "ListUsers", "OpenConsole",
		"GetDevice", "ListDevices", "RenewDevice", "JoinBrowser", "BeginPasskey", "GetNotices",
		"SubscribeNotices", "UnsubscribeNotices", "GetUpstream", "ListUpstreams", "GetPosture",
		"GetSkill", "ListSkills", "ListPublishers",
		"CheckPolicy", "ExplainCall", "GetPolicy", "GetSnapshot", "ListActivations", "GetObservation",
	}
	// aboutAll are about everybody's work, or change what holds for all: not for those who
	// are bound, and not for agents.
	aboutAll = []string{
		"AddAgent", "AddOperator", "AddToken", "AddUser", "ChangeUser", "RemoveAgent", "RemoveOperator", "RemoveUser", "RevokeToken",
		"ExportApprovals", "GetGrant", "ListGrants", "RevokeGrant", "GetAttestation", "PairDevice", "RevokeDevice",
		"ExportJournal", "GetHead", "GetProof", "TailJournal", "VerifyJournal", "ExportKeys", "ListKeys", "RotateKey", "MoveKeys",
		"InstallSkill", "EnableSkill", "QuarantineSkill", "ShrinkSkill", "RemoveSkill", "TrustPublisher", "RevokePublisher",
		"AddUpstream", "ApproveUpstream", "RemoveUpstream", "ApplyPolicy", "ReplayPolicy", "RollbackPolicy", "SuggestPolicy", "RunDoctor",
		"SetObservation",
		"CloseSession", "GetSession", "ListSessions", "Shutdown",
		"DiffChanges", "ListUndo", "CheckUndo", "UndoCall", "RedoCall", "ForgetUndo", "AddWorkspace", "ListWorkspaces", "RemoveWorkspace",
		"PutSecret", "RevealSecret", "ListSecrets", "DeleteSecret", "RotateVault", "UnlockVault", "LockVault", "GetVaultStatus",
		"BindSecret", "UnbindSecret", "ListBindings",
		"ExportVault", "ImportVault",
	}
)

// noRule is what becomes of a method that nobody thought about.
const noRule palyra.Reason = "no rule says what this method has to do with others' work"

// amongNeighbours: whoever is in a room, bound or another reaches their own.
func amongNeighbours(m method, door, name string) palyra.Reason {
	one := string(m.Name())
	kinds := 0
	for _, list := range [][]string{seeOne, feedOne, lists, anew, general, aboutAll} {
		if slices.Contains(list, one) {
			kinds++
		}
	}
	if kinds != 1 {
		return noRule
	}
	missing := when(strings.HasSuffix(name, beside) && (slices.Contains(seeOne, one) || slices.Contains(feedOne, one)), palyra.ReasonNotFound)
	switch {
	case door == "room" && strings.HasPrefix(m.procedure(), "/palyra.v1.RunService/"):
		return palyra.ReasonPermission // they would outlive it
	case strings.HasPrefix(name, "agent's second token"): // the same agent, as far: it sees, and does not feed
		return then(asAgent(m), when(slices.Contains(feedOne, one), palyra.ReasonNotFound))
	case strings.HasPrefix(name, "signed by owner of one workspace"):
		bound := when(slices.Contains(aboutAll, one) ||
			!slices.Contains([]string{"status.view", "tools.list", "policy.read", "approvals.view", "approvals.decide"}, m.access.GetPermission()),
			palyra.ReasonScopeDenied)
		return then(person(m, "owner", true), bound, noDevice(m), missing)
	}
	return then(asAgent(m), missing)
}
