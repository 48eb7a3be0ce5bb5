package process

import (
	"slices"

	"palyra"
	"palyra/internal/dotenv"
)

// mask says in the plan whether secret values of the workspace's files are kept from the run.
func (d *Driver) mask(p *palyra.Plan) {
	if d.Masked == nil {
		return
	}
	if !d.Masked(p.Workspace.Path) {
		p.Detail.Notes = append(p.Detail.Notes, "files like .env are NOT masked in this workspace: it can read the secrets in them")
		return
	}
	p.Enforcement.Mechanisms = append(p.Enforcement.Mechanisms, dotenv.Mechanism)
	slices.Sort(p.Enforcement.Mechanisms)
}
