package hook

import (
	"cmp"
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
	"palyra/internal/pattern"
)

// maxHook is the largest hook input of an agent.
const maxHook = 8 << 20

// fields are those of a tool's input.
type fields hook.Object

// text is a string field; "" when it is missing.
func (f fields) text(name string) (string, error) {
	s, err := hook.Object(f).Text(name)
	if err != nil {
		return "", badHook("%v", err)
	}
	return s, nil
}

// texts reads several string fields; the needed one must not be empty.
func (f fields) texts(needed string, names ...string) (map[string]string, error) {
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
		WithRemedy("this command is for the hook of an agent; see 'palyra help hook'")
}

// hookCall is one call that an agent asks about before it makes it.
type hookCall struct {
	hook.Asked
	agent  hook.AgentProgram
	like   string // the tool of Claude Code that does the same; "" where nobody knows
	fields fields // what that one would be given

	root    string // the workspace
	rel     string // the agent's directory, relative to the workspace
	session string
	own     hook.AgentSession // the agent's own files
	sealed  []string          // the daemon's own directories, which nobody is asked about
	masked  maskedFiles
}

// sessionForm is the form of an agent's session id; others are not passed on.
var sessionForm = pattern.Later(`^[A-Za-z0-9._-]{1,64}$`)

var toolForm = pattern.Later(`^[A-Za-z0-9_-]{1,100}$`)

// readHook reads the hook's input. project is the directory that the agent was started for, if it names one.
func readHook(agent hook.AgentProgram, raw []byte, project string) (*hookCall, error) {
	asked, err := agent.Read(raw)
	if err != nil {
		return nil, badHook("%v", err)
	}
	h := &hookCall{
		Asked: asked, agent: agent, rel: ".", own: hook.AgentSession{Transcript: asked.Transcript, ID: asked.Session},
	}
	switch {
	case !toolForm().MatchString(h.Tool) && !h.Elsewhere:
		return nil, badHook("tool_name is no name of a tool")
	case !filepath.IsAbs(h.Dir):
		return nil, badHook("cwd is not a whole path")
	}
	like, given, ok := agent.Like(h.Tool, h.Input)
	if ok {
		h.like, h.fields = like, given
	}
	if sessionForm().MatchString(h.Session) {
		h.session = agent.Name + "-" + h.Session
	}
	return h, h.stands(project)
}

// stands finds the workspace of a call: the agent's project, else the directory that it works in.
func (h *hookCall) stands(project string) error {
	h.Dir = filepath.Clean(h.Dir)
	if h.like == hook.LikeShell && !h.agent.Plain {
		dir, err := h.fields.text("directory")
		if err != nil {
			return err
		}
		if dir != "" && !plainPath(dir) {
			h.like = "" // nobody knows where it runs
		} else if dir != "" {
			project, h.Dir = cmp.Or(project, h.Dir), h.place(dir)
		}
	}
	h.root = h.Dir
	if rel, err := filepath.Rel(project, h.Dir); filepath.IsAbs(project) && err == nil && filepath.IsLocal(rel) {
		h.root, h.rel = filepath.Clean(project), filepath.ToSlash(rel)
	}
	return nil
}

// goesToPalyra reports whether a call goes to Palyra's own MCP server, by the name that the person
// who installed the hook vouched for: it walks the gate there. The name of a server is certain only
// if the separator occurs nowhere else: a project's server may be called palyra__palyra_x.
func (h *hookCall) goesToPalyra(server string) bool {
	if h.Server != "" { // the program itself says whose tool it is
		return h.Server == server && strings.HasPrefix(h.Tool, "mcp_"+server+"_palyra_")
	}
	tool, own := strings.CutPrefix(h.Tool, "mcp"+hook.ToolSeparator+server+hook.ToolSeparator)
	return own && server != "" && strings.HasPrefix(tool, "palyra_") && !strings.Contains(server+tool, hook.ToolSeparator)
}

// request turns the call into one of Palyra's tools, so that the policies for them hold for the
// agent's. Other calls are asked about under their own name.
func (h *hookCall) request(o hookOptions) (client.CallRequest, error) {
	if h.like == hook.LikeShell {
		return h.shell(o)
	}
	if args, ok := h.readsOutside(); ok {
		return h.requestFor(palyra.ToolName("hook."+strings.ToLower(h.like)), args)
	}
	name, args, err := h.mapped()
	if err != nil {
		return client.CallRequest{}, err
	}
	if name == "" {
		tool, input := h.Tool, hook.Object(h.Input)
		if h.like != "" {
			tool, input = h.like, hook.Object(h.fields) // so that it is one tool, whoever's
		}
		name, args = palyra.ToolName("hook."+strings.ToLower(tool)), map[string]any{"tool": tool, "input": input}
	}
	return h.requestFor(name, args)
}

func (h *hookCall) requestFor(name palyra.ToolName, args any) (client.CallRequest, error) {
	raw, err := screen.EncodePlain(args)
	return client.CallRequest{Tool: name, Arguments: raw, Workspace: h.root, Session: h.session, Surface: palyra.SurfaceHook}, err
}

func (h *hookCall) shell(o hookOptions) (client.CallRequest, error) {
	got, err := h.fields.texts("command")
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
	switch h.like {
	case agentRead, agentNotebookRead:
		return h.onPath(palyra.ToolFileRead, h.pathField(), nil)
	case agentList:
		return h.onPath(palyra.ToolFileList, "path", nil)
	case agentWrite:
		got, err := h.fields.texts("file_path", "content")
		if err != nil {
			return "", nil, err
		}
		return h.onPath(palyra.ToolFileWrite, "file_path", map[string]any{"content": got["content"], "make_dirs": true})
	case agentEdit, agentMultiEdit:
		return h.edit()
	case agentGlob:
		return h.glob()
	case agentGrep:
		got, err := h.fields.texts("pattern")
		if err != nil {
			return "", nil, err
		}
		pattern := regexp.QuoteMeta(got["pattern"])
		if len(pattern) > maxSearched { // a cut pattern would be judged without its end
			return "", nil, nil
		}
		args := map[string]any{"pattern": pattern}
		if g, err := h.fields.text("glob"); err == nil && plainGlob().MatchString(g) {
			args["glob"] = g
		}
		return h.onPath(palyra.ToolFileSearch, "path", args)
	case agentPatch:
		return h.patch()
	case agentFetch:
		got, err := h.fields.texts("url")
		return palyra.ToolFetch, map[string]any{"url": got["url"]}, err
	}
	return "", nil, nil
}

func (h *hookCall) pathField() string {
	if h.like == agentNotebookRead {
		return "notebook_path"
	}
	return "file_path"
}

// onPath adds the path of a field to the arguments of a tool. A tool without the field works in the
// agent's directory.
func (h *hookCall) onPath(name palyra.ToolName, field string, args map[string]any) (palyra.ToolName, map[string]any, error) {
	p, err := h.fields.text(field)
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
	return filepath.Join(h.Dir, p)
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
var leadsAway = pattern.Later(`\.\.|[{,][/~.]|\.[,}](.*})?\.`)

// plainGlob are the globs that every program reads alike: files of one kind, anywhere.
var plainGlob = pattern.Later(`^\*\.[A-Za-z0-9]{1,16}$`)

// maxSearched is the longest pattern that palyra.fs.search takes.
const maxSearched = 1000

// glob is a listing of the searched directory. A pattern that leads elsewhere is asked about unchanged.
func (h *hookCall) glob() (palyra.ToolName, map[string]any, error) {
	got, err := h.fields.texts("pattern")
	if err != nil {
		return "", nil, err
	}
	if p := got["pattern"]; filepath.IsAbs(p) || !plainPath(p) || leadsAway().MatchString(p) {
		return "", nil, nil
	}
	return h.onPath(palyra.ToolFileList, "path", map[string]any{"recursive": true})
}
