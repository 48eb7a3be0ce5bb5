// Package palyra holds the words of the system: what an agent proposes, what it resolves to, what policy and people
// say about it, what ran, and what is kept.
//
// The words are data with their own small rules (digests, state table, the one constructor of a Grant). The package
// does no input or output and knows no part of the daemon; every part, the doors and the client speak in these words.
// It uses the standard library and internal/canon, nothing else. What each of them means stands in docs/words.md.
package palyra

import (
	"strings"
	"time"
	"unicode/utf8"
)

// ID is a ULID: 26 characters, sortable by time. What other records name has a word of its own, so that one cannot be
// passed for another; ID is the rest, and any of them.
type ID string

type (
	// CallID names a call.
	CallID ID
	// RunID names an agent's run.
	RunID ID
	// SessionID names a session.
	SessionID ID
	// ApprovalID names a question to people.
	ApprovalID ID
	// LeaseID names a standing permission.
	LeaseID ID
	// GrantID names the permission for one call; one that an answer gave goes by its lease's name.
	GrantID ID
)

// Digest is "sha256:" and 64 lower-case hex digits.
type Digest string

// Valid reports whether d has the one accepted form.
func (d Digest) Valid() bool {
	hex, ok := strings.CutPrefix(string(d), "sha256:")
	return ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}

// Principal is who asks: "user:alice", "agent:local", "device:…", "system:…". It always comes from a credential,
// never from what a caller says of itself.
type Principal string

// Who acts by no person's word: the daemon itself, and a time that is over.
const (
	SystemDaemon Principal = "system:daemon"
	SystemClock  Principal = "system:clock"
)

// Kind returns the part before the colon: user, agent, device or system.
func (p Principal) Kind() string {
	kind, _, _ := strings.Cut(string(p), ":")
	return kind
}

// Name returns the part after the colon.
func (p Principal) Name() string {
	_, name, _ := strings.Cut(string(p), ":")
	return name
}

// IsAgent reports whether p may propose and must never decide.
func (p Principal) IsAgent() bool { return p.Kind() == "agent" }

// Surface is the way a call came in; records call it "door". The credential, the socket and the method decide it, but
// a client at the agent's socket, with a token or on a paired device claims itself whether it serves MCP or ACP.
type Surface string

// The surfaces.
const (
	SurfaceCLI  Surface = "cli"  // a person's own command, at the operator's socket
	SurfaceAPI  Surface = "api"  // any client that says nothing else
	SurfaceMCP  Surface = "mcp"  // one that says that it serves MCP
	SurfaceACP  Surface = "acp"  // one that says that it stands between an editor and its agent
	SurfaceCron Surface = "cron" // the daemon's own
	SurfaceHook Surface = "hook" // a call that is only to be judged
	SurfaceRoom Surface = "room" // a run's own door
)

// Position is where an entry stands in the journal. The zero Position is nowhere: entries count from 1.
type Position struct {
	Seq  int64  `json:"seq"`
	Leaf Digest `json:"leaf"` // RFC 6962 leaf hash of the entry
}

// Time is the one rendering of a moment in records: RFC 3339, UTC, nanoseconds.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Clip cuts outside text to at most n bytes and makes it valid UTF-8, marking a cut with three dots. They are no mark
// of any view (internal/show has those), which text from outside cannot hold.
func Clip[S ~string](text S, n int) S {
	s := strings.ToValidUTF8(string(text), "\uFFFD")
	if len(s) <= n {
		return S(s)
	}
	const mark = "..."
	if n -= len(mark); n < 0 {
		return ""
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return S(s[:n] + mark)
}
