// Package catalog knows the tools and admits calls to them.
//
// Words: a tool is known by its name and has a schema; a proposal is admitted when its tool is known, its arguments
// are one clean JSON object that fits the schema and the caps, and its run has calls left.
//
// Admit is the first thing a proposal meets after it is on record, so it looks at hostile bytes: they are bounded
// before they are parsed, parsed strictly (no repeated keys, no invalid text, bounded depth) and never repeated in
// an error. It does not say whether a call is allowed; that is policy's matter.
//
// Its words are those of docs/words.md.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"palyra"
	"palyra/internal/canon"
)

// HardCap bounds the arguments of every tool, whatever its own cap.
const HardCap = 10 << 20

// nameForm is what a tool's name looks like. Those of upstream servers' tools end as the server calls them.
var nameForm = regexp.MustCompile(`^([a-z0-9._-]{1,128}|mcp\.[a-z0-9-]{1,32}\.[A-Za-z0-9._-]{1,64})$`)

// Config wires a Catalog.
type Config struct {
	Tools    []palyra.Tool
	MaxCalls int64 // per run; 0 admits none
	// Foreign describes a tool of the agent's own by name. Such tools are not
	// listed, and admitted only to be checked; nil: there are none.
	Foreign func(name palyra.ToolName) (palyra.Tool, bool)
}

// Catalog is the known tools with their schemas read. Groups of them come and go.
type Catalog struct {
	maxCalls int64
	foreign  func(name palyra.ToolName) (palyra.Tool, bool)

	mu     sync.RWMutex // guards the fields below
	byName map[palyra.ToolName]known
	names  []palyra.ToolName
}

type known struct {
	tool   palyra.Tool
	schema *schema
	group  string // empty: always there
}

// New reads every schema. A tool whose schema cannot be read, or whose name is
// taken or malformed, is a defect and refused.
func New(c Config) (*Catalog, error) {
	cat := &Catalog{byName: map[palyra.ToolName]known{}, maxCalls: c.MaxCalls, foreign: c.Foreign}
	for _, t := range c.Tools {
		k, err := newKnown("", t)
		if err != nil {
			return nil, fmt.Errorf("catalog: new: %w", err)
		}
		if _, dup := cat.byName[t.Name]; dup {
			return nil, fmt.Errorf("catalog: new: two tools are called %q", t.Name)
		}
		cat.byName[t.Name] = k
		cat.names = append(cat.names, t.Name)
	}
	slices.Sort(cat.names)
	return cat, nil
}

func newKnown(group string, t palyra.Tool) (known, error) {
	if !nameForm.MatchString(string(t.Name)) {
		return known{}, fmt.Errorf("bad tool name %q", t.Name)
	}
	s, err := newSchema(t.InputSchema)
	if err != nil {
		return known{}, fmt.Errorf("schema of %s: %w", t.Name, err)
	}
	return known{t, s, group}, nil
}

// List returns every tool, by name.
func (c *Catalog) List() []palyra.Tool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	list := make([]palyra.Tool, 0, len(c.names))
	for _, name := range c.names {
		list = append(list, c.byName[name].tool)
	}
	return list
}

// Get returns a tool by name, or NotFound with the nearest names.
func (c *Catalog) Get(name palyra.ToolName) (palyra.Tool, error) {
	k, err := c.find(name)
	return k.tool, err
}

// ReadOnly reports whether a tool only looks. What policy would ask about is not among them: an agent calls such tools
// side by side, and parallel questions help nobody.
func (c *Catalog) ReadOnly(name palyra.ToolName) bool {
	t, err := c.Get(name)
	return err == nil && t.ReadOnly && !t.Sensitive()
}

func (c *Catalog) find(name palyra.ToolName) (known, error) {
	if !nameForm.MatchString(string(name)) {
		return known{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "that is not a tool's name").
			WithRemedy("a tool's name has 1 to 128 characters out of a-z, 0-9, '.', '_' and '-'; see 'palyra tools list'")
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	k, ok := c.byName[name]
	if !ok {
		e := palyra.Errorf(palyra.NotFound, palyra.ReasonUnknownTool, "there is no tool called %q", name)
		if server, ok := serverOf(name); ok { // a tool that changed is not offered, but there
			return known{}, e.WithRemedy("it may be in quarantine: 'palyra mcp show %s' says so; 'palyra tools list' has what is offered", server)
		}
		offered := func(id string) bool {
			return slices.ContainsFunc(c.names, func(n palyra.ToolName) bool { return strings.HasPrefix(string(n), "skill."+id+".") })
		}
		if id, ok := skillOf(name); ok && !offered(id) {
			return known{}, e.WithRemedy("no tool of the skill %s is offered: it may be in quarantine, or not be here; see 'palyra skills list'", id)
		}
		if near := nearest(name, c.names); len(near) > 0 {
			return known{}, e.WithRemedy("did you mean %s? See 'palyra tools list'", strings.Join(near, " or "))
		}
		return known{}, e.WithRemedy("see 'palyra tools list'")
	}
	return k, nil
}

// serverOf is the MCP server that a tool of this name would be one of.
func serverOf(tool palyra.ToolName) (string, bool) {
	rest, ok := strings.CutPrefix(string(tool), "mcp.")
	server, _, named := strings.Cut(rest, ".")
	return server, ok && named && server != ""
}

// skillOf is the skill that a tool of this name would be one of.
func skillOf(tool palyra.ToolName) (string, bool) {
	rest, ok := strings.CutPrefix(string(tool), "skill.")
	id, _, named := strings.Cut(rest, ".")
	return id, ok && named && id != ""
}

// proposed finds the tool of a proposal. One that is only to be checked may be the agent's own.
func (c *Catalog) proposed(p palyra.Proposal) (known, error) {
	if p.Check && c.foreign != nil {
		if t, ok := c.foreign(p.Tool); ok {
			s, err := newSchema(t.InputSchema)
			return known{tool: t, schema: s}, err
		}
	}
	return c.find(p.Tool)
}

// Admit finds the tool and checks the arguments against its schema and caps.
func (c *Catalog) Admit(ctx context.Context, p palyra.Proposal) (palyra.Tool, error) {
	if err := ctx.Err(); err != nil {
		return palyra.Tool{}, err
	}
	k, err := c.proposed(p)
	if err != nil {
		return palyra.Tool{}, err
	}
	most := c.maxCalls
	if p.CallsMax > 0 {
		most = min(most, p.CallsMax)
	}
	if p.CallsUsed < 0 || p.CallsMax < 0 || p.CallsUsed >= most {
		return palyra.Tool{}, palyra.Errorf(palyra.Exhausted, palyra.ReasonBudgetSpent, "the run has made all of its %d calls", most).
			WithRemedy("start a new run, or have the limit tool_call.max_calls_per_run raised")
	}
	if most := min(k.tool.MaxInput, HardCap); int64(len(p.Arguments)) > most {
		return palyra.Tool{}, palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge, "the arguments have %d bytes; %s takes at most %d",
			len(p.Arguments), k.tool.Name, most).
			WithRemedy("send less at once")
	}
	args, err := object(p.Arguments)
	if err != nil {
		return palyra.Tool{}, err
	}
	return k.tool, k.schema.check(k.tool.Name, args)
}

// object parses arguments: one JSON object without NUL in any string.
func object(raw []byte) (map[string]any, error) {
	malformed := func(text string) *palyra.Error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s", text).
			WithRemedy("send the arguments as one JSON object in UTF-8")
	}
	v, err := canon.Parse(raw)
	if err != nil {
		return nil, malformed("the arguments are not clean JSON: " + flaw(err)).WithCause(err)
	}
	args, ok := v.(map[string]any)
	if !ok {
		return nil, malformed("the arguments are not a JSON object")
	}
	for name, value := range args {
		if hasNUL(name) || hasNUL(value) {
			return nil, malformed(fmt.Sprintf("argument %q contains a NUL character", palyra.Clip(name, 64))).
				WithRemedy("binary content goes as base64 where a tool takes it")
		}
	}
	return args, nil
}

// flaw names what the parser disliked without repeating the input.
func flaw(err error) string {
	for _, f := range []struct {
		flaw  error
		words string
	}{
		{canon.ErrText, "they are not UTF-8"},
		{canon.ErrSurrogate, "a string has half of a surrogate pair"},
		{canon.ErrDepth, "they are nested too deeply"},
		{canon.ErrRest, "something follows the object"},
		{canon.ErrRepeated, "a key is repeated"},
		{canon.ErrNumber, "a number is malformed or too long"},
		{canon.ErrRange, "a number is out of range"},
	} {
		if errors.Is(err, f.flaw) {
			return f.words
		}
	}
	return "they do not parse"
}

func hasNUL(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.IndexByte(v, 0) >= 0
	case []any:
		return slices.ContainsFunc(v, hasNUL)
	case map[string]any:
		for k, e := range v {
			if hasNUL(k) || hasNUL(e) {
				return true
			}
		}
	}
	return false
}
