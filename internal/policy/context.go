package policy

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go"

	"palyra"
)

// call is one request under judgement. Entities and context are built once;
// only the approval differs between evaluations.
type call struct {
	*state
	request   palyra.Request
	principal cedar.EntityUID
	world     world
	pairs     []pair
	risk      palyra.Risk
	words     palyra.Command // what its words tell
	standing  palyra.Standing
	base      cedar.RecordMap // the context without the approval
	contexts  map[answer]cedar.Record
	trace     []Rung
	tracing   bool
}

// newCall builds everything policy looks at. An error means that the request
// cannot be put into policy's terms, and so cannot be judged.
func (s *state) newCall(r palyra.Request) (*call, error) {
	uid, err := principalUID(r.Principal)
	if err != nil {
		return nil, err
	}
	if s, err = s.within(r.Plan); err != nil {
		return nil, err
	}
	if r.Tool.Name == "" || r.Tool.Name != r.Plan.Tool {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonPolicyError, "policy: the plan is not one of the tool")
	}
	egress, err := hostsOf(r.Plan.Egress)
	if err != nil {
		return nil, err
	}
	standing, err := s.standingOf(r)
	if err != nil {
		return nil, err
	}
	f, command := examine(r), s.analyse(r.Plan)
	f.command(command)
	tool := s.toolEntity(r, f.capabilities, r.Tool.Sensitive())
	c := &call{state: s, request: r, principal: uid, risk: f.risk(), words: command, standing: standing, contexts: map[answer]cedar.Record{}}
	c.pairs = pairsOf(r, f.capabilities, tool.UID)
	c.world = world{own: append(s.bundle.people(uid, r.Owner, standing), tool, sessionEntity(r)), actions: s.bundle.actions}
	for _, p := range c.pairs {
		if p.resource.Type == "Secret" {
			c.world.own = append(c.world.own, namedEntity(p.resource))
		}
	}
	c.base = s.contextOf(r, f, egress)
	c.base["command"] = commandRecord(command)
	if command.Subcommand != "" {
		c.base["subcommand"] = cedar.String(command.Subcommand)
	}
	if standing.Device != "" {
		c.base["device_id"] = cedar.String(standing.Device)
	}
	if at := r.Plan.Workspace.Path; at != "" {
		place := placeEntity(at)
		c.world.own, c.base["place"] = append(c.world.own, place), place.UID
	}
	return c, nil
}

// standingOf is what is known of who calls: as the request says, which is what was
// known when it was judged first, or as it is now.
func (s *state) standingOf(r palyra.Request) (palyra.Standing, error) {
	switch {
	case r.Standing != nil:
		return *r.Standing, nil
	case s.standing == nil:
		return palyra.Standing{}, nil
	}
	st, err := s.standing(r.Principal, r.Owner)
	if err != nil {
		err = palyra.Errorf(palyra.Unavailable, palyra.ReasonPolicyError, "policy: the roles of %s cannot be read", palyra.Clip(string(r.Principal), 64)).WithCause(err)
	}
	return st, err
}

// context returns the context with the approval given, made once per approval.
func (c *call) context(a answer) cedar.Record {
	rec, ok := c.contexts[a]
	if !ok {
		c.base["approval"] = a.record()
		rec = cedar.NewRecord(c.base)
		c.contexts[a] = rec
	}
	return rec
}

func (s *state) contextOf(r palyra.Request, f findings, egress []host) cedar.RecordMap {
	p := r.Plan
	m := cedar.RecordMap{
		"tool": cedar.String(p.Tool), "capabilities": stringSet(f.capabilities), "sensitive": cedar.Boolean(f.sensitive),
		"read_only": cedar.Boolean(f.readOnly), "destructive": cedar.Boolean(f.destructive),
		"argv": stringSet(p.Argv), "command_line": cedar.String(commandLine(p.Argv)), "cwd": cedar.String(p.Cwd),
		"env": envNames(p.Env), "stdin_live": cedar.Boolean(p.Stdin == stdinLive),
		"reads": stringSet(p.Reads), "writes": stringSet(p.Writes), "secrets": stringSet(p.Bindings),
		"tier": cedar.String(p.Tier), "input_bytes": cedar.Long(len(p.Arguments)),
		"calls_used": cedar.Long(r.CallsUsed), "budget": cedar.Long(s.budget(r)), "labels": stringSet(r.Labels),
		"risk": f.record(), "session_id": cedar.String(r.Session), "session": sessionUID(r.Session),
		"door": cedar.String(r.Door), "door_allowed": cedar.Boolean(s.doors.has(string(r.Door))),
		"principal_allowed": cedar.Boolean(s.principals.has(string(r.Principal))),
		"profile":           cedar.String(p.Profile), "asks": cedar.Boolean(p.Asks), "network": cedar.String(p.Enforcement.Mode),
		"agent_socket": cedar.Boolean(p.AgentSocket),
		"probed":       cedar.Boolean(s.probed != nil && s.probed(p.Tier)),
		"unix_sockets": cedar.Boolean(p.UnixSockets),
		"mechanisms":   stringSet(p.Enforcement.Mechanisms), "limits": limitSet(p.Enforcement.Limits),
		"workspace_needed": cedar.Boolean(f.workspace), "workspace_known": cedar.Boolean(p.Workspace.Known),
	}
	m["egress"], m["hosts"] = hostSets(egress)
	optional(r, m)
	return m
}

// optional adds what not every request has.
func optional(r palyra.Request, m cedar.RecordMap) {
	p := r.Plan
	if !r.At.IsZero() {
		m["time"] = momentRecord(r.At)
	}
	if r.Run != "" {
		m["run_id"] = cedar.String(r.Run)
	}
	if r.Parent != "" {
		m["parent"] = cedar.String(r.Parent)
	}
	if p.Workspace.Path != "" {
		m["workspace"] = cedar.String(p.Workspace.Path)
	}
	if p.Executable.Path != "" {
		m["executable"] = cedar.NewRecord(cedar.RecordMap{
			"path": cedar.String(p.Executable.Path), "name": cedar.String(filepath.Base(p.Executable.Path)),
			"digest": cedar.String(p.Executable.Digest),
		})
	}
}

// budget is how many calls the run may make.
func (s *state) budget(r palyra.Request) int64 {
	if r.CallsMax > 0 {
		return min(r.CallsMax, s.snapshot.MaxCallsPerRun)
	}
	return s.snapshot.MaxCallsPerRun
}

// dated says when a request is judged that does not say so itself. A replay asks
// without: what it says must not depend on when it is run.
func (s *state) dated(r palyra.Request) palyra.Request {
	if r.At.IsZero() && s.now != nil {
		r.At = s.now()
	}
	return r
}

func momentRecord(at time.Time) cedar.Record {
	at = at.UTC()
	return cedar.NewRecord(cedar.RecordMap{
		"unix": cedar.Long(at.Unix()), "hour": cedar.Long(at.Hour()), "minute": cedar.Long(at.Minute()),
		"weekday": cedar.Long((int64(at.Weekday())+6)%7 + 1),
	})
}

// limitSet writes how each limit is enforced as limit=method.
func limitSet(limits map[string]string) cedar.Set {
	list := make([]string, 0, len(limits))
	for limit, method := range limits {
		list = append(list, limit+"="+method)
	}
	return stringSet(list)
}

func envNames(env []palyra.EnvVar) cedar.Set {
	names := make([]string, len(env))
	for i, v := range env {
		names[i] = v.Name
	}
	return stringSet(names)
}

// host is one place a plan connects to.
type host struct {
	name string
	port int64
}

// hostsOf reads host:port entries. One that cannot be read cannot be judged.
func hostsOf(list []string) ([]host, error) {
	out := make([]host, 0, len(list))
	for _, s := range list {
		name, port, err := net.SplitHostPort(s)
		name = strings.TrimSuffix(strings.ToLower(name), ".")
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil || name == "" || n == 0 {
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonPolicyError, "policy: %q is not host:port", palyra.Clip(s, 64))
		}
		out = append(out, host{name, int64(n)})
	}
	return out, nil
}

func hostSets(list []host) (pairs, names cedar.Set) {
	both, only := make([]cedar.Value, len(list)), make([]string, len(list))
	for i, h := range list {
		both[i] = cedar.NewRecord(cedar.RecordMap{"host": cedar.String(h.name), "port": cedar.Long(h.port)})
		only[i] = h.name
	}
	return cedar.NewSet(both...), stringSet(only)
}

// commandLine joins argv so that no two different ones give the same text:
// whatever is not plainly one word is quoted.
func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if a == "" || strings.ContainsFunc(a, unsafeInWord) {
			words[i] = strconv.Quote(a)
		}
	}
	return strings.Join(words, " ")
}

func unsafeInWord(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("-_./=:,+@%^", r)
}
