package cli

import (
	"context"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/mcp"
	"palyra/secrets"
)

// secretVariable is the name of a variable that usually holds a secret.
var secretVariable = regexp.MustCompile(`(?i)(token|secret|passw|passphrase|credential|api_?key|access_?key|private_?key)`)

// destination is where the value of a variable goes: as an operator says, or as is known of the variable.
type destination struct{ host, header string }

// destinations reads SERVER.VARIABLE=HOST:PORT or SERVER.VARIABLE=HOST:PORT/HEADER.
func destinations(all []string) (map[string]destination, error) {
	out := map[string]destination{}
	for _, text := range all {
		which, to, ok := strings.Cut(text, "=")
		host, header, _ := strings.Cut(to, "/")
		if header == "" {
			header = "Authorization"
		}
		if _, _, err := net.SplitHostPort(host); !ok || err != nil || !strings.Contains(which, ".") {
			return nil, exit.Usagef("--to needs SERVER.VARIABLE=HOST:PORT, or SERVER.VARIABLE=HOST:PORT/HEADER")
		}
		out[which] = destination{host, header}
	}
	return out, nil
}

// destinationOf finds out where the value of a variable of a server goes.
func destinationOf(u palyra.Upstream, variable string, told map[string]destination) (destination, bool) {
	if d, ok := told[u.Name+"."+variable]; ok {
		return d, true
	}
	if b, ok := secrets.Propose(variable, variable); ok && b.Kind == secrets.Header {
		return destination{b.Hosts[0], b.Place}, true
	}
	if len(u.Egress) == 1 { // it reaches nothing else
		return destination{u.Egress[0], "Authorization"}, true
	}
	return destination{}, false
}

// adoptVariables moves variables of MCP servers that look like secrets by their names.
func adoptVariables(ctx context.Context, c *client.Client, told map[string]destination, dry, replace bool) (all []adoption, err error) {
	list, err := c.Upstreams(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, u := range list {
		for _, variable := range slices.Sorted(maps.Keys(u.Env)) {
			_, named := told[u.Name+"."+variable]
			known[u.Name+"."+variable] = true
			if !named && (len(u.Env[variable]) < secrets.MinMasked || !secretVariable.MatchString(variable)) {
				continue
			}
			a, err := adoptVariable(ctx, c, &u, variable, told, dry, replace)
			if err != nil {
				return all, err
			}
			all = append(all, a)
		}
	}
	for which := range told {
		if !known[which] {
			return all, exit.Usagef("--to %s: no MCP server has such a variable; see 'palyra mcp list'", which)
		}
	}
	return all, nil
}

// adoptVariable moves one variable. The server changes last, and at once: before that it has the variable as it was. What
// was done before is taken back when it does not, and done again when this was cut off. Another's secret or binding of the
// same name stays as it is.
func adoptVariable(ctx context.Context, c *client.Client, u *palyra.Upstream, variable string, told map[string]destination,
	dry, replace bool,
) (adoption, error) {
	name := u.Name + "-" + variable
	a := adoption{What: "mcp." + u.Name, From: variable, Secret: name, Binding: name, Where: "palyra mcp show " + u.Name}
	d, ok := destinationOf(*u, variable, told)
	if a.Host = d.host; !ok {
		a.Left = fmt.Sprintf("where its value goes is not known; say it: palyra vault adopt --to %s.%s=HOST:PORT/HEADER", u.Name, variable)
	}
	if dry || a.Left != "" {
		return a, nil
	}
	value := palyra.NewSecret([]byte(u.Env[variable]))
	defer value.Destroy()
	b := secrets.Binding{
		Name: name, Secret: name, Scope: secrets.Global, Kind: secrets.Upstream, Place: d.header, Hosts: []string{d.host}, Env: variable,
		Tools: []palyra.ToolName{palyra.ToolName("mcp." + u.Name)},
	}
	over := mcp.Same
	if replace {
		over = mcp.Secret
	}
	info, back, err := mcp.Keep(ctx, c, b, value, over)
	if e := palyra.AsError(err); err != nil && e.Reason == palyra.ReasonExists {
		a.Left = e.Text + ": " + e.Remedy + "; or put this value in the place of a secret: --replace"
		return a, nil
	}
	if err != nil {
		return a, err
	}
	a.Version = info.Version
	next := u.UpstreamDefinition
	next.Env, next.Bindings = maps.Clone(next.Env), append(slices.Clone(next.Bindings), name)
	delete(next.Env, variable)
	now, err := c.ReplaceUpstream(ctx, u.Name, next, false)
	if err != nil {
		e := palyra.AsError(err)
		a.Left = "the server runs as before, since it does not start with a placeholder: " + e.Text + "; the vault is as it was"
		a.Version = 0
		return a, back()
	}
	*u = now
	return a, nil
}

// giveBack has a server find its variables again as they were before they came into the vault. The secrets stay there.
func giveBack(ctx context.Context, c *client.Client, server string) (all []adoption, err error) {
	u, err := c.Upstream(ctx, server, false)
	if err != nil {
		return nil, err
	}
	bindings, err := c.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	next := u.UpstreamDefinition
	next.Env, next.Bindings = maps.Clone(next.Env), slices.Clone(next.Bindings)
	if next.Env == nil {
		next.Env = map[string]string{}
	}
	for _, b := range bindings {
		if b.Name != server+"-"+b.Env || b.Kind != secrets.Upstream || !slices.Contains(next.Bindings, b.Name) {
			continue
		}
		value, info, err := c.RevealSecret(ctx, b.Scope, b.Secret, 0)
		if err != nil {
			return nil, err
		}
		_ = value.Use(func(v []byte) error { next.Env[b.Env] = string(v); return nil })
		value.Destroy()
		next.Bindings = slices.DeleteFunc(next.Bindings, func(n string) bool { return n == b.Name })
		all = append(all, adoption{
			What: "mcp." + server, From: b.Env, Secret: b.Secret, Binding: b.Name, Version: info.Version, Back: true,
			Where: "palyra mcp show " + server,
		})
	}
	if len(all) == 0 {
		return nil, exit.Failedf(palyra.ReasonNotFound, "no variable of %s came into the vault", server).
			WithRemedy("'palyra vault bindings' lists what servers use")
	}
	if _, err := c.ReplaceUpstream(ctx, server, next, false); err != nil {
		return nil, err
	}
	for _, a := range all {
		if err := c.UnbindSecret(ctx, a.Binding); err != nil {
			return nil, err
		}
	}
	return all, nil
}
