package process

import (
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/fingerprint"
)

// resolution is what resolve found for a command, and the print of all that it looked at.
type resolution struct {
	cwd        string
	executable palyra.Executable
	inputs     []palyra.Input
	links      []palyra.Link
	notes      []string // with those that the plan had before
	print      *fingerprint.Print
}

func resolutionOf(p *palyra.Plan, print *fingerprint.Print) *resolution {
	return &resolution{
		cwd: p.Cwd, executable: p.Executable, inputs: slices.Clone(p.Inputs), links: slices.Clone(p.Links),
		notes: slices.Clone(p.Detail.Notes), print: print,
	}
}

// enter writes it into a plan.
func (f *resolution) enter(p *palyra.Plan) {
	p.Cwd, p.Executable, p.Inputs, p.Links = f.cwd, f.executable, slices.Clone(f.inputs), slices.Clone(f.links)
	p.Detail.Notes = slices.Clone(f.notes)
}

// resolutionKey is everything that resolve's answer depends on beside the file system; "": it is not to be remembered. Each
// text is preceded by its length, so that no two lists read the same.
func resolutionKey(user userRights, asked string, a arguments, lookup []string, p *palyra.Plan) string {
	if len(p.Inputs)+len(p.Links) > 0 {
		return ""
	}
	var k strings.Builder
	number := func(n int64) { k.WriteString(strconv.FormatInt(n, 36)); k.WriteByte(' ') }
	texts := func(list ...string) {
		for _, s := range list {
			number(int64(len(s)))
			k.WriteString(s)
		}
	}
	list := func(l []string) { number(int64(len(l))); texts(l...) }
	command, args := a.command()
	texts(p.Workspace.Path, asked, a.Cwd, string(p.Tier), string(p.Stdin), command)
	number(p.Workspace.Owner)
	k.WriteString(strconv.FormatBool(p.AgentSocket) + strconv.FormatBool(p.Terminal))
	number(int64(user.uid))
	number(int64(len(user.groups)))
	for _, g := range user.groups {
		number(int64(g))
	}
	list(args)
	list(lookup)
	list(p.Detail.Notes)
	number(int64(len(p.Mounts)))
	for _, m := range p.Mounts {
		texts(m.Source, m.Target, strconv.FormatBool(m.Writable))
	}
	for _, f := range p.Files {
		texts(f.Target)
	}
	if k.Len() > maxResolutionKey {
		return ""
	}
	return k.String()
}
