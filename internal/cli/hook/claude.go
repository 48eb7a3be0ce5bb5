package hook

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/screen"
	"palyra/internal/hook"
)

// maxHook is the largest hook input of an agent.
const maxHook = 8 << 20

// object is a JSON object by its exact keys: a decoder into a struct would take "Command" for
// "command", and another program would not.
type object map[string]json.RawMessage

// text is a string field; "" when it is missing. It refuses a value that is no string, or that a
// program could not get unchanged.
func (f object) text(name string) (string, error) {
	raw, ok := f[name]
	if !ok || string(raw) == "null" {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", badHook("%s is not text", name)
	}
	if strings.IndexByte(s, 0) >= 0 || strings.ContainsRune(s, utf8.RuneError) {
		return "", badHook("%s holds characters that cannot be passed on", name)
	}
	return s, nil
}

// texts reads several string fields; the needed one must not be empty.
func (f object) texts(needed string, names ...string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range append(names, needed) {
		s, err := f.text(name)
		if err != nil {
			return nil, err
		}
		out[name] = s
	}
	if out[needed] == "" {
		return nil, badHook("%s is missing", needed)
	}
	return out, nil
}

func badHook(format string, args ...any) *palyra.Error {
	return exit.Failedf(palyra.ReasonMalformedInput, "the hook's input cannot be used: "+format, args...).
		WithRemedy("this command is for Claude Code's PreToolUse hook; see 'palyra help hook'")
}

// hookCall is one call that an agent asks about before it makes it.
type hookCall struct {
	tool    string
	input   object
	root    string // the workspace
	dir     string // the agent's working directory
	rel     string // dir, relative to the workspace
	session string
	agent   hook.AgentProgram
	own     hook.AgentSession // the agent's own files
	sealed  []string          // the daemon's own directories, which nobody is asked about
	masked  maskedFiles
}

// sessionForm is the form of an agent's session id; others are not passed on.
var sessionForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

var toolForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// readHook reads the hook's input. project is the directory that the agent was started for, if it names one.
func readHook(agent hook.AgentProgram, raw []byte, project string) (*hookCall, error) {
	var doc object
	if !utf8.Valid(raw) || json.Unmarshal(raw, &doc) != nil || doc == nil {
		return nil, badHook("it is not one JSON object in UTF-8")
	}
	got, err := doc.texts("tool_name", "hook_event_name", "cwd", "session_id", "transcript_path")
	if err != nil {
		return nil, err
	}
	h := &hookCall{
		agent: agent, tool: got["tool_name"], dir: got["cwd"], rel: ".",
		own: hook.AgentSession{Transcript: got["transcript_path"], ID: got["session_id"]},
	}
	switch {
	case got["hook_event_name"] != "PreToolUse":
		return nil, badHook("it is of another event than PreToolUse")
	case !toolForm.MatchString(h.tool):
		return nil, badHook("tool_name is no name of a tool")
	case !filepath.IsAbs(h.dir):
		return nil, badHook("cwd is not a whole path")
	case json.Unmarshal(doc["tool_input"], &h.input) != nil || h.input == nil:
		return nil, badHook("tool_input is not an object")
	}
	if id := got["session_id"]; sessionForm.MatchString(id) {
		h.session = agent.Name + "-" + id
	}
	h.dir = filepath.Clean(h.dir)
	h.root = h.dir
	if rel, err := filepath.Rel(project, h.dir); filepath.IsAbs(project) && err == nil && filepath.IsLocal(rel) {
		h.root, h.rel = filepath.Clean(project), filepath.ToSlash(rel)
	}
	return h, nil
}

// goesToPalyra reports whether a call goes to Palyra's own MCP server, by the name that the person
// who installed the hook vouched for: it walks the gate there. The name of a server is certain only
// if the separator occurs nowhere else: a project's server may be called palyra__palyra_x.
func (h *hookCall) goesToPalyra(server string) bool {
	tool, own := strings.CutPrefix(h.tool, "mcp"+hook.ToolSeparator+server+hook.ToolSeparator)
	return own && server != "" && strings.HasPrefix(tool, "palyra_") && !strings.Contains(server+tool, hook.ToolSeparator)
}

// request turns the call into one of Palyra's tools, so that the policies for them hold for the
// agent's. Other calls are asked about under their own name.
func (h *hookCall) request(o hookOptions) (client.CallRequest, error) {
	if h.agent.Shell(h.tool) {
		return h.shell(o)
	}
	if args, ok := h.readsOutside(); ok {
		return h.requestFor(palyra.ToolName("hook."+strings.ToLower(h.tool)), args)
	}
	name, args, err := h.mapped()
	if err != nil {
		return client.CallRequest{}, err
	}
	if name == "" {
		name, args = palyra.ToolName("hook."+strings.ToLower(h.tool)), map[string]any{"tool": h.tool, "input": h.input}
	}
	return h.requestFor(name, args)
}

func (h *hookCall) requestFor(name palyra.ToolName, args any) (client.CallRequest, error) {
	raw, err := screen.EncodePlain(args)
	return client.CallRequest{Tool: name, Arguments: raw, Workspace: h.root, Session: h.session, Surface: palyra.SurfaceHook}, err
}

func (h *hookCall) shell(o hookOptions) (client.CallRequest, error) {
	got, err := h.input.texts("command")
	if err != nil {
		return client.CallRequest{}, err
	}
	return h.requestFor(palyra.ToolProcessRun, proposal.Arguments{Command: o.shell, Args: []string{"-c", got["command"]}, Cwd: h.rel})
}

// The agents' own tools that have a like of Palyra's, by the agents' names.
const (
	agentRead, agentNotebookRead, agentList, agentGlob, agentGrep = "Read", "NotebookRead", "LS", "Glob", "Grep"
	agentWrite, agentEdit, agentMultiEdit, agentPatch, agentFetch = "Write", "Edit", "MultiEdit", "apply_patch", "WebFetch"
)

// mapped is the tool of Palyra that does the same; "" if there is none.
func (h *hookCall) mapped() (palyra.ToolName, map[string]any, error) {
	switch h.tool {
	case agentRead, agentNotebookRead:
		return h.onPath(palyra.ToolFileRead, h.pathField(), nil)
	case agentList:
		return h.onPath(palyra.ToolFileList, "path", nil)
	case agentWrite:
		got, err := h.input.texts("file_path", "content")
		if err != nil {
			return "", nil, err
		}
		return h.onPath(palyra.ToolFileWrite, "file_path", map[string]any{"content": got["content"], "make_dirs": true})
	case agentEdit, agentMultiEdit:
		return h.edit()
	case agentGlob:
		return h.glob()
	case agentGrep:
		got, err := h.input.texts("pattern")
		if err != nil {
			return "", nil, err
		}
		pattern := regexp.QuoteMeta(got["pattern"])
		if len(pattern) > maxSearched { // a cut pattern would be judged without its end
			return "", nil, nil
		}
		args := map[string]any{"pattern": pattern}
		if g, err := h.input.text("glob"); err == nil && plainGlob.MatchString(g) {
			args["glob"] = g
		}
		return h.onPath(palyra.ToolFileSearch, "path", args)
	case agentPatch:
		return h.patch()
	case agentFetch:
		got, err := h.input.texts("url")
		return palyra.ToolFetch, map[string]any{"url": got["url"]}, err
	}
	return "", nil, nil
}

func (h *hookCall) pathField() string {
	if h.tool == agentNotebookRead {
		return "notebook_path"
	}
	return "file_path"
}

// onPath adds the path of a field to the arguments of a tool. A tool without the field works in the
// agent's directory.
func (h *hookCall) onPath(name palyra.ToolName, field string, args map[string]any) (palyra.ToolName, map[string]any, error) {
	p, err := h.input.text(field)
	if err != nil {
		return "", nil, err
	}
	switch {
	case p == "" && field != "path":
		return "", nil, badHook("%s is missing", field)
	case !plainPath(p):
		return "", nil, nil
	}
	if args == nil {
		args = map[string]any{}
	}
	args["path"] = h.place(p)
	return name, args, nil
}

// place is the path that the agent's own tool would use.
func (h *hookCall) place(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(h.dir, p)
}

// plainPath reports whether an agent's tool finds the same file by a path as we do. Such a tool
// expands the sign for the home directory, trims spaces and normalises letters (NFC): a path with
// any of these is asked about unchanged.
func plainPath(p string) bool {
	if strings.HasPrefix(p, "~") || strings.TrimSpace(p) != p {
		return false
	}
	for _, r := range p {
		if r >= utf8.RuneSelf && !unicode.Is(steady, r) {
			return false
		}
	}
	return true
}

// steady are letters that no normal form of Unicode replaces or combines with their neighbours: not
// all of them, but those common in file names.
var steady = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x00a1, 0x02af, 1},
		{0x0388, 0x0482, 1},
		{0x048a, 0x052f, 1},
		{0x05d0, 0x05ea, 1},
		{0x0620, 0x064a, 1},
		{0x2010, 0x2027, 1},
		{0x3041, 0x3096, 1},
		{0x30a1, 0x30fa, 1},
		{0x3400, 0x4dbf, 1},
		{0x4e00, 0x9fff, 1},
		{0xac00, 0xd7a3, 1},
	},
	R32: []unicode.Range32{{0x1f300, 0x1faff, 1}},
}

// leadsAway finds patterns that may leave the directory: directly, or after their braces are expanded.
var leadsAway = regexp.MustCompile(`\.\.|[{,][/~.]|\.[,}](.*})?\.`)

// plainGlob are the globs that every program reads alike: files of one kind, anywhere.
var plainGlob = regexp.MustCompile(`^\*\.[A-Za-z0-9]{1,16}$`)

// maxSearched is the longest pattern that palyra.fs.search takes.
const maxSearched = 1000

// glob is a listing of the searched directory. A pattern that leads elsewhere is asked about unchanged.
func (h *hookCall) glob() (palyra.ToolName, map[string]any, error) {
	got, err := h.input.texts("pattern")
	if err != nil {
		return "", nil, err
	}
	if p := got["pattern"]; filepath.IsAbs(p) || !plainPath(p) || leadsAway.MatchString(p) {
		return "", nil, nil
	}
	return h.onPath(palyra.ToolFileList, "path", map[string]any{"recursive": true})
}
