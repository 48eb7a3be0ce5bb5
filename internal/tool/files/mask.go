//go:build unix

package files

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/dotenv"
	"palyra/internal/subpath"
	"palyra/internal/tool"
)

// masking is which files of a workspace are shown as copies with placeholders for their secret values.
type masking struct {
	known bool
	files []string // real paths below the workspace
	mask  dotenv.Masker
}

// masked reports whether the file at a real path is shown as a copy. Where nobody can tell nothing is shown.
func (r *root) masked(rel string) (bool, error) {
	if !r.cfg.Masks.On(r.path) {
		return false, nil
	}
	if !r.masks.known {
		w := dotenv.SearchDir{Top: r.fd, Path: r.path, Place: r.path}
		if tool.LayerOf(r.ctx) != nil { // what an agent's stage shows is nobody else's
			w.Place = ""
		}
		found, err := r.cfg.Masks.Find(r.ctx, w)
		if err != nil {
			return false, unmaskable(err)
		}
		r.masks = masking{known: true, files: found, mask: r.cfg.Masks.In(r.path)}
	}
	_, found := slices.BinarySearch(r.masks.files, rel)
	return found || r.cfg.Masks.Names.Count(path.Base(rel)), nil
}

// unmaskable refuses to show anything of a workspace in which nobody can tell what to mask.
func unmaskable(err error) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement, "%s", dotenv.Why(err)).
		WithRemedy("work in a smaller directory, or mend it; " + dotenv.ShowValues).WithCause(err)
}

// shownOf is the content of a file as it may be shown.
func (r *root) shownOf(rel string, content []byte) ([]byte, error) {
	masked, err := r.masked(rel)
	if err != nil || !masked {
		return content, err
	}
	return r.masks.mask.Mask(rel, content), nil
}

// mostTold is how much of a masked copy a refusal has.
const mostTold = 2000

// hides refuses a read of the agent's own by which it would see masked values: only what Palyra itself shows can be masked.
func (r *root) hides(rel string) error {
	masked, err := r.masked(rel)
	if err != nil || !masked {
		return err
	}
	text, same := r.masks.mask.Copy(r.fd, rel)
	if same {
		return nil
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied,
		"%s has secret values, which are not shown. With placeholders for them it reads:\n%s", quote(rel),
		strings.ToValidUTF8(palyra.Clip(string(text), mostTold), "\ufffd")).
		WithRemedy("work with this copy; a shell command through Palyra ('palyra exec -- cat FILE') and palyra.fs.read show the same")
}

// hidesBelow is hides for a search through a directory, or a file.
func (r *root) hidesBelow(rel string, g *glob) error {
	if _, err := r.masked(rel); err != nil {
		return err
	}
	for _, name := range r.masks.files {
		if !subpath.Within(rel, name) || g != nil && !g.match(name) {
			continue
		}
		if _, same := r.masks.mask.Copy(r.fd, name); !same {
			return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied,
				"it would search %s, whose secret values are not shown", quote(name)).
				WithRemedy("search by a shell command (rg, grep), which Palyra runs where such files are masked; " +
					"or leave them out, by a glob like *.ts or a directory without them")
		}
	}
	return nil
}

// editable refuses to change parts of a file that has masked values: whether a text stands in it would tell them piece by piece.
func (s state) editable(rel string) error {
	if !s.exists || s.copy == nil || bytes.Equal(s.copy, s.content) {
		return nil
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied,
		"%s has secret values, which are masked: it can only be written whole", quote(rel)).
		WithRemedy("ask a person to change it, or write all of it with palyra.fs.write; " + dotenv.ShowValues)
}

// keepsValues refuses a change that would put placeholders where the values are.
func (r *root) keepsValues(c change) error {
	if c.remove || !r.cfg.Masks.On(r.path) || !dotenv.Carries(c.after) {
		return nil
	}
	masked, err := r.masked(c.path)
	if err != nil || !masked {
		return err
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied,
		"what would be written to %s has placeholders of masked values in it: the values would be lost", quote(c.path)).
		WithRemedy("ask a person to change it; " + dotenv.ShowValues)
}

// guarded are the changes to files that are masked: people are asked about each, as about what other programs obey.
func (r *root) guarded(changes []change) (out []string) {
	for _, c := range changes {
		if masked, err := r.masked(c.path); masked && err == nil {
			out = append(out, c.path)
		}
	}
	return out
}

// carried says of a change to another file that it has placeholders in it.
func carried(c change) []string {
	if c.remove || !dotenv.Carries(c.after) {
		return nil
	}
	return []string{quoteUnlessPlain(c.path) + " would have placeholders of masked .env values in it, not the values"}
}
