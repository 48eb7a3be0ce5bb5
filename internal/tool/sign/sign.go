// Package sign has the tool by which a commit or a tag is signed. Only the daemon proposes it, when a program in a room
// asks for a signature; so the signature walks the gate like any other call: it is judged, a person sees author,
// committer, message and files, and the decision is signed, recorded and attested.
//
// The plan's arguments hold the whole commit or tag. Running the tool signs nothing: whoever proposed it has the same
// bytes, and signs them once the call is finished.
package sign

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"palyra"
	"palyra/internal/gitobject"
	"palyra/internal/show"
	"palyra/internal/tool"
)

// Name is the tool's name.
const Name = palyra.ToolSign

// All returns the package's tools.
func All() []tool.Tool { return []tool.Tool{signer{}} }

type signer struct{}

const (
	maxInput  = 512 << 10
	maxLines  = 12 // of a message, and of files, that are shown
	maxColumn = 160
)

const schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["binding", "promise", "key", "payload", "payload_digest", "files"],
  "properties": {
    "binding": {"type": "string", "minLength": 1, "maxLength": 128, "description": "The binding of the key."},
    "promise": {"type": "string", "minLength": 1, "maxLength": 32768, "description": "What the binding says of its key."},
    "key": {"type": "string", "minLength": 1, "maxLength": 128, "description": "The fingerprint of the key."},
    "payload": {"type": "string", "minLength": 1, "maxLength": 90000, "description": "The commit or tag, base64."},
    "payload_digest": {"type": "string", "minLength": 71, "maxLength": 71, "description": "Its digest."},
    "branch": {"type": "string", "maxLength": 256, "description": "The branch that the commit goes on, where that is certain."},
    "files": {"type": "object", "description": "What the commit changes."}
  }
}`

// Spec implements tool.Tool.
func (signer) Spec() palyra.Tool {
	return palyra.Tool{
		Name: Name, Title: "Sign commit or tag", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, Workspace: true,
		Description: "Asks whether a commit or a tag may be signed with a bound key. Palyra calls it itself when a running program, such as " +
			"'git commit -S', asks for a signature.",
		Capabilities: []palyra.Capability{palyra.SecretsRead}, InputSchema: json.RawMessage(schema), MaxInput: maxInput,
	}
}

// Plan implements tool.Tool.
func (signer) Plan(_ context.Context, env tool.Env, p *palyra.Plan) error {
	// Only the daemon gives a purpose: an agent inside a sandbox has a parent too, and must not prepare answers for later.
	if env.Parent == "" || env.Purpose == "" {
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "Palyra itself proposes this, when a running program asks for a signature").
			WithRemedy("run git in a call with the binding of the key: palyra exec --secret NAME -- git commit -S")
	}
	r, o, err := decode(*p)
	if err != nil {
		return err
	}
	p.Bindings, p.Enforcement.Mechanisms = []string{r.Binding}, []string{r.Promise}
	p.Detail.Summary = summary(r, o)
	p.Detail.Notes = append(p.Detail.Notes, notes(r, o)...)
	p.Detail.Notes = append(p.Detail.Notes,
		"wanted by a program that runs now (call "+string(env.Parent)+"): "+show.Shorten(env.Purpose, maxColumn))
	return nil
}

func decode(p palyra.Plan) (r gitobject.SignRequest, o gitobject.Object, err error) {
	if err = tool.Arguments(p, &r); err != nil {
		return r, o, err
	}
	bad := func(what string) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s", what).WithRemedy("let git ask for the signature")
	}
	if !strings.HasPrefix(r.Promise, "binding:"+r.Binding+":") { // as secrets.Binding.Promise says it
		return r, o, bad("it does not say what the binding of the key is for")
	}
	payload, err := base64.StdEncoding.DecodeString(r.Payload)
	if err != nil {
		return r, o, bad("the payload is not base64")
	}
	if string(palyra.SumBytes(payload)) != r.Digest {
		return r, o, bad("the payload is another one than its digest says")
	}
	if o, err = gitobject.Parse(payload); err != nil {
		return r, o, bad(err.Error())
	}
	return r, o, nil
}

func summary(r gitobject.SignRequest, o gitobject.Object) string {
	subject, _, _ := strings.Cut(o.Message, "\n")
	if o.Kind == gitobject.KindTag {
		return "sign the tag " + strconv.Quote(show.Shorten(o.Name, maxColumn)) + ": " + strconv.Quote(show.Shorten(subject, maxColumn))
	}
	on := ""
	if r.Branch != "" {
		on = " on " + show.Line(r.Branch)
	}
	return "sign a commit" + on + ": " + strconv.Quote(show.Shorten(subject, maxColumn))
}

// notes say what is signed, line by line.
func notes(r gitobject.SignRequest, o gitobject.Object) (list []string) {
	if o.Kind == gitobject.KindTag {
		list = append(list, "tagger "+who(o.Committer), "tags the "+o.TargetKind+" "+o.Target)
	} else {
		if o.Author == o.Committer {
			list = append(list, "author and committer "+who(o.Author))
		} else {
			list = append(list, "author "+who(o.Author), "committer "+who(o.Committer))
		}
		list = append(list, changed(r.Files)...)
		list = append(list, "tree "+o.Tree, parents(o))
	}
	list = append(list, message(o.Message)...)
	if o.Merged > 0 {
		list = append(list, fmt.Sprintf("has %d merged tags in it", o.Merged))
	}
	if o.Encoding != "" {
		list = append(list, "its text is said to be "+show.Line(o.Encoding))
	}
	if o.Kind == gitobject.KindCommit && r.Branch == "" {
		list = append(list, "it is not certain which branch it goes on")
	}
	return append(list, "key "+show.Line(r.Key)+", by the binding "+show.Line(r.Binding)+"; payload "+r.Digest)
}

func who(i gitobject.Ident) string {
	return show.Shorten(i.Name, maxColumn) + " <" + show.Shorten(i.Email, maxColumn) + ">, " + i.At.Format(time.RFC3339)
}

func parents(o gitobject.Object) string {
	switch len(o.Parents) {
	case 0:
		return "no parent: it begins a history"
	case 1:
		return "parent " + o.Parents[0]
	}
	return "parents " + strings.Join(o.Parents, " ")
}

// message is the text of a commit or tag after its first line, which is in the summary.
func message(text string) (list []string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")[1:]
	for i, l := range lines {
		if i == maxLines {
			return append(list, fmt.Sprintf("… and %s of the message", many(len(lines)-i, "more line")))
		}
		if strings.TrimSpace(l) != "" {
			list = append(list, "message: "+show.Shorten(l, maxColumn))
		}
	}
	return list
}

// many is a number of things.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// changed are the files of a commit.
func changed(d gitobject.Diffstat) []string {
	total := fmt.Sprintf("%s, %s added, %d removed", many(len(d.Files)+d.More, "file"), many(d.Added, "line"), d.Removed)
	if d.Missing {
		total = "at least " + total + "; the rest could not be looked at: the tree's id stands for all of it"
	}
	list := []string{total}
	for i, f := range d.Files {
		if i == maxLines {
			return append(list, "… and "+many(len(d.Files)+d.More-i, "more file"))
		}
		line := f.How + " " + show.Shorten(f.Path, maxColumn)
		if f.Binary {
			line += " (lines not counted)"
		} else {
			line += fmt.Sprintf(" +%d -%d", f.Added, f.Removed)
		}
		list = append(list, line)
	}
	return list
}

// Mechanisms implements tool.Confined.
func (signer) Mechanisms(p palyra.Plan) []string { return p.Enforcement.Mechanisms }

// Run implements tool.Tool.
func (signer) Run(_ context.Context, _ tool.Env, p palyra.Plan) (json.RawMessage, error) {
	r, _, err := decode(p)
	if err != nil {
		return nil, err
	}
	return tool.Encode(map[string]string{"payload_digest": r.Digest})
}
