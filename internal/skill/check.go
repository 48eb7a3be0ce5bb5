package skill

import (
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/pattern"
)

const (
	maxTools       = 32
	maxScripts     = 64
	maxOfKind      = 32
	maxDescription = 4 << 10
	maxTitle       = 200
	maxSchema      = 32 << 10
	maxFuel        = 1_000_000_000_000
	maxMemoryMiB   = 1024
	maxTimeoutMS   = 10 * 60 * 1000
	minTimeoutMS   = 100
)

var (
	idForm      = pattern.Later(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)
	toolForm    = pattern.Later(`^[a-z0-9]([a-z0-9_-]{0,38}[a-z0-9])?$`)
	moduleForm  = pattern.Later(`^[a-z0-9]([a-z0-9._-]{0,58}[a-z0-9])?\.wasm$`)
	abiForm     = pattern.Later(`^palyra-skill/[0-9]{1,4}$`)
	exportForm  = pattern.Later(`^[A-Za-z][A-Za-z0-9_.-]{0,127}$`)
	licenseForm = pattern.Later(`^[A-Za-z0-9][A-Za-z0-9.+ ()-]{0,99}$`)
)

// ValidID reports whether a text can be the id of a skill, or the name of a publisher.
func ValidID(id string) bool { return idForm().MatchString(id) && !strings.HasPrefix(id, "palyra") }

// forms are what the values of each kind of capability look like.
var forms = map[string]func() *regexp.Regexp{
	"hosts":    pattern.Later(`^[a-z0-9\[][a-z0-9.:\[\]-]{0,250}:[0-9]{1,5}$`),
	"secrets":  pattern.Later(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`),
	"storage":  pattern.Later(`^([a-z0-9][a-z0-9._-]{0,62}/){1,4}$`),
	"tools":    pattern.Later(`^[a-z0-9][A-Za-z0-9._-]{0,127}$`),
	"channels": pattern.Later(`^[a-z0-9][a-z0-9._-]{0,63}$`),
	"programs": pattern.Later(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`),
}

// Check refuses a manifest that makes no sense, and returns a good one in its one form.
func Check(m Manifest) (Manifest, error) {
	switch {
	case m.Format != Format:
		return m, bad("format is %q, and has to be %q", palyra.Clip(m.Format, 64), Format)
	case !ValidID(m.ID):
		return m, bad("id: 1 to 40 characters out of a-z, 0-9 and '-', which neither begins nor ends it; none that begins with palyra")
	case !ValidVersion(m.Version):
		return m, bad("version: MAJOR.MINOR.PATCH, or that with -PRERELEASE")
	case !ValidID(m.Publisher):
		return m, bad("publisher: 1 to 40 characters out of a-z, 0-9 and '-', which neither begins nor ends it; none that begins with palyra")
	case m.ABI != "" && !abiForm().MatchString(m.ABI):
		return m, bad("abi: palyra-skill/ and a number")
	case m.License != "" && !licenseForm().MatchString(m.License):
		return m, bad("license: an SPDX expression")
	case len(m.Tools) == 0 && m.Folder == nil:
		return m, bad("it has neither tools nor a folder")
	case len(m.Tools) > maxTools:
		return m, bad("it has %d tools, at most %d", len(m.Tools), maxTools)
	}
	if err := text("description", m.Description, maxDescription, true); err != nil {
		return m, err
	}
	seen := map[string]bool{}
	for i, t := range m.Tools {
		if err := checkTool(t, m.Folder != nil); err != nil {
			return m, err
		}
		if name := strings.ReplaceAll(t.Name, "-", "_"); seen[name] {
			return m, bad("tools[%d]: two tools are called %q, or cannot be told apart", i, t.Name)
		} else {
			seen[name] = true
		}
	}
	var err error
	if m.Capabilities, err = checkCapabilities(m.Capabilities, m.Folder != nil); err != nil {
		return m, err
	}
	if err := checkFolder(m.Folder); err != nil {
		return m, err
	}
	return m, checkLimits(m.Limits)
}

func checkTool(t ToolSpec, folder bool) error {
	switch {
	case !toolForm().MatchString(t.Name):
		return bad("tools: a name has 1 to 40 characters out of a-z, 0-9, '_' and '-', and begins and ends with a letter or digit")
	case folder && (t.Name == FolderRead || t.Name == FolderRun):
		return bad("tools: %q is a tool of the folder", t.Name)
	case !moduleForm().MatchString(t.Module):
		return bad("tool %s: module is the name of a file of the package, NAME.wasm", t.Name)
	case t.Export != "" && (!exportForm().MatchString(t.Export) || t.Export == "memory" || t.Export == "palyra_alloc"):
		return bad("tool %s: export is the name of a function that the module exports", t.Name)
	case len(t.InputSchema) > maxSchema:
		return bad("tool %s: input_schema has %d bytes, at most %d", t.Name, len(t.InputSchema), maxSchema)
	}
	if err := text("tool "+t.Name+": description", t.Description, maxDescription, true); err != nil {
		return err
	}
	if err := text("tool "+t.Name+": title", t.Title, maxTitle, false); err != nil {
		return err
	}
	v, err := canon.Parse([]byte(t.InputSchema))
	object, ok := v.(map[string]any)
	if err != nil || !ok || object["type"] != "object" {
		return bad("tool %s: input_schema is a JSON Schema of an object: {\"type\":\"object\",…}", t.Name)
	}
	if unseenIn(v) {
		return bad("tool %s: input_schema has characters that do not show, or change how others show", t.Name)
	}
	return nil
}

// text refuses what is no text that people can read.
func text(what, s string, most int, needed bool) error {
	switch {
	case needed && strings.TrimSpace(s) == "":
		return bad("%s is missing", what)
	case len(s) > most:
		return bad("%s has %d bytes, at most %d", what, len(s), most)
	case strings.ContainsFunc(s, unseen):
		return bad("%s has characters that do not show, or change how others show", what)
	}
	return nil
}

// unseen reports whether a character could tell a model something that people do not see, or have people read something else:
// controls, marks of direction, tags, what has no width, and what is assigned to nothing. The joiners are letters' business.
func unseen(r rune) bool {
	const nonJoiner, joiner, special = '\u200c', '\u200d', '\U000e0000' // a plane of tags and selectors
	return (!unicode.IsGraphic(r) || r >= special) && r != '\n' && r != '\t' && r != nonJoiner && r != joiner
}

// unseenIn reports whether a JSON value has such a character, in a name or a text.
func unseenIn(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.ContainsFunc(v, unseen)
	case []any:
		return slices.ContainsFunc(v, unseenIn)
	case map[string]any:
		for k, e := range v {
			if unseenIn(k) || unseenIn(e) {
				return true
			}
		}
	}
	return false
}

func checkCapabilities(c Capabilities, folder bool) (Capabilities, error) {
	for _, kind := range Kinds() {
		values := c.Of(kind)
		if len(values) > maxOfKind {
			return c, bad("capabilities: %d %s, at most %d", len(values), kind, maxOfKind)
		}
		for _, v := range values {
			if !validValue(kind, v) {
				return c, bad("capabilities.%s: %q cannot be one", kind, palyra.Clip(v, 64))
			}
		}
	}
	if len(c.Channels) > 0 {
		return c, bad("capabilities.channels: Palyra has no channels that a skill could send to")
	}
	if !folder && len(c.Programs)+len(c.Read)+len(c.Write) > 0 {
		return c, bad("capabilities: programs, read and write are for the scripts of a folder, and there is none")
	}
	return c.Tidy(), nil
}

// mayCall reports whether skills may call a tool: of Palyra's own those for files, and those of servers behind the gate. Not
// what the daemon itself asks people by (hosts, signatures, pushes, devices), no programs, which have doors of their own, no
// requests, which are held to hosts and secrets, and no other skill.
func mayCall(tool string) bool {
	if !strings.HasPrefix(tool, "palyra.") {
		return !strings.HasPrefix(tool, "skill.")
	}
	return strings.HasPrefix(tool, "palyra.fs.") || tool == string(palyra.ToolEcho)
}

func validValue(kind, v string) bool {
	switch kind {
	case "hosts":
		_, port, err := net.SplitHostPort(v)
		n, bad := strconv.ParseUint(port, 10, 16)
		return forms[kind]().MatchString(v) && err == nil && bad == nil && n > 0 && strconv.FormatUint(n, 10) == port
	case "read", "write":
		return v == "." || ValidPath(v)
	case "storage":
		return forms[kind]().MatchString(v) && path.Clean(v)+"/" == v
	case "tools":
		return forms[kind]().MatchString(v) && mayCall(v)
	}
	return forms[kind]().MatchString(v)
}

// partForm is one element of a path in a package: what every file system can hold and nobody reads as another one.
var partForm = pattern.Later(`^[A-Za-z0-9_][A-Za-z0-9._ +@=-]{0,99}$`)

// reserved are names that some systems take for devices.
var reserved = pattern.Later(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?$`)

// ValidPath reports whether a path is relative and plain: nothing that leads elsewhere, on any system.
func ValidPath(p string) bool {
	if len(p) == 0 || len(p) > 240 || path.Clean(p) != p {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if !partForm().MatchString(part) || reserved().MatchString(part) || strings.HasSuffix(part, ".") || strings.HasSuffix(part, " ") {
			return false
		}
	}
	return true
}

func checkFolder(f *Folder) error {
	if f == nil {
		return nil
	}
	if len(f.Scripts) > maxScripts {
		return bad("folder: %d scripts, at most %d", len(f.Scripts), maxScripts)
	}
	seen := map[string]bool{}
	for _, s := range f.Scripts {
		if !ValidPath(s) || seen[s] {
			return bad("folder: scripts are files in the folder, each once: %q is not", palyra.Clip(s, 64))
		}
		seen[s] = true
	}
	return nil
}

func checkLimits(l Limits) error {
	switch {
	case l.Fuel < 0 || l.Fuel > maxFuel:
		return bad("limits.fuel is 1 to %d", int64(maxFuel))
	case l.MemoryMiB < 0 || l.MemoryMiB > maxMemoryMiB:
		return bad("limits.memory_mib is 1 to %d", maxMemoryMiB)
	case l.TimeoutMS != 0 && (l.TimeoutMS < minTimeoutMS || l.TimeoutMS > maxTimeoutMS):
		return bad("limits.timeout_ms is %d to %d", minTimeoutMS, maxTimeoutMS)
	}
	return nil
}
