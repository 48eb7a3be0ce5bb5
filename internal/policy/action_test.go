package policy

import (
	"fmt"
	"strings"
	"testing"

	"palyra"
)

// Who may do what beside calls, by default.
func TestDefaultActions(t *testing.T) {
	e := engine(t, defaults(t))
	readers := "user:owner user:admin user:operator user:approver user:auditor user:viewer user: device: system:"
	for _, c := range []struct{ action, resource, who string }{
		{"approval.decide", "Approval", "user:owner user:admin user:operator user:approver"},
		{"approval.export", "Approval", "user:owner user:admin user:operator user:auditor"},
		{"journal.export", "Journal", "user:owner user:admin user:operator user:auditor"},
		{"policy.write", "Policy", "user:owner user:admin"},
		{"approval.view", "Approval", readers},
		{"journal.read", "Journal", readers},
		{"policy.read", "Policy", readers},
		{"vault.list", "Secret", readers},
		{"cron.list", "CronJob", readers},
		{"tool.list", "ToolGroup", readers + " agent:owner agent:agent agent:"},
		{"daemon.status", "Daemon", readers + " agent:owner agent:agent agent:"},
		{"vault.get", "Secret", "user:owner"},
		{"vault.put", "Secret", "user:owner user:admin"},
		{"vault.delete", "Secret", "user:owner user:admin"},
		{"skill.install", "Skill", "user:owner user:admin"},
		{"device.pair", "Device", ""},
		{"device.revoke", "Device", ""},
		{"cron.create", "CronJob", ""},
		{"cron.update", "CronJob", ""},
		{"cron.delete", "CronJob", ""},
		{"cron.run", "CronJob", ""},
	} {
		for _, kind := range []string{"user", "agent", "device", "system"} {
			for _, role := range []palyra.Role{"owner", "admin", "operator", "approver", "auditor", "viewer", "agent", ""} {
				var roles []palyra.Role
				if role != "" {
					roles = []palyra.Role{role}
				}
				key := kind + ":" + string(role)
				want := strings.Contains(" "+c.who+" ", " "+key+" ") ||
					(kind == "device" || kind == "system" || kind == "user") && strings.Contains(" "+c.who+" ", " "+kind+": ") ||
					kind == "agent" && strings.Contains(" "+c.who+" ", " agent: ")
				got, hits := e.AuthorizeAction(t.Context(), palyra.Principal(kind+":x"), roles, c.action, c.resource, "1")
				if got != want {
					t.Errorf("%s as %s: %v (%v)", c.action, key, got, hits)
				}
				if got && len(hits) == 0 {
					t.Errorf("%s as %s: permitted by nothing", c.action, key)
				}
			}
		}
	}
}

// No bundle that keeps the rules about agents can let one decide.
func TestAgentsNeverDecide(t *testing.T) {
	files := map[string]string{"z.cedar": `@id("mistake") permit (principal, action, resource);`}
	for name, text := range defaults(t).files {
		files[name] = text
	}
	b, err := Compile(files)
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, b)
	for action, resource := range map[string]string{
		"approval.decide": "Approval", "policy.write": "Policy", "vault.get": "Secret",
		"device.pair": "Device",
	} {
		ok, hits := e.AuthorizeAction(t.Context(), "agent:local", []palyra.Role{palyra.RoleOwner}, action, resource, "1")
		var by []string
		for _, h := range hits {
			by = append(by, h.ID)
		}
		if ok || by[len(by)-1] != "agents-never-operate" || (by[0] == "agents-never-decide") != (action == "approval.decide") {
			t.Errorf("%s: %v %v", action, ok, hits)
		}
		if ok, _ := e.AuthorizeAction(t.Context(), "user:ada", []palyra.Role{palyra.RoleOwner}, action, resource, "1"); !ok {
			t.Errorf("%s: the added permit does not work for people", action)
		}
	}
}

func TestAuthorizeActionRefuses(t *testing.T) {
	e := engine(t, load(t, permitAll))
	for _, c := range []struct {
		principal                palyra.Principal
		action, kind, id, reason string
	}{
		{"user:ada", "approval.decid", "Approval", "1", "unknown action"},
		{"user:ada", "", "Approval", "1", "no action"},
		{"user:ada", "operate", "Approval", "1", "a group"},
		{"user:ada", "approval.decide", "Tool", "1", "another resource"},
		{"user:ada", "approval.decide", "", "1", "no resource"},
		{"user:ada", "approval.decide", `Approval::"x"`, "1", "not a type"},
		{"user:ada", "tool.execute", "Tool", "1", "a call, which is judged by its plan"},
		{"ada", "approval.decide", "Approval", "1", "no principal"},
		{"user:", "approval.decide", "Approval", "1", "no name"},
	} {
		if ok, _ := e.AuthorizeAction(t.Context(), c.principal, []palyra.Role{palyra.RoleOwner}, c.action, c.kind, c.id); ok {
			t.Errorf("permitted: %s", c.reason)
		}
	}
	if ok, hits := e.AuthorizeAction(t.Context(), "user:ada", nil, "approval.decide", "Approval", `1"; x`); !ok || hits[0].ID != "all" {
		t.Errorf("a good one: %v %v", ok, hits)
	}
}

func TestAuthorizeActionErrorsDeny(t *testing.T) {
	for _, effect := range []string{"permit", "forbid"} {
		e := engine(t, load(t, permitAll+fmt.Sprintf(`@id("broken") %s (principal, action == Action::"approval.decide", resource)
			when { context.approval.votes - 9223372036854775807 - 2 < 0 };`, effect)))
		ok, hits := e.AuthorizeAction(t.Context(), "user:ada", []palyra.Role{palyra.RoleOwner}, "approval.decide", "Approval", "1")
		if ok || len(hits) != 1 || hits[0].ID != "broken" {
			t.Errorf("%s: %v %v", effect, ok, hits)
		}
	}
}
