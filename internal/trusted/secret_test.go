package trusted

import "testing"

// Known places of secrets are told by any spelling, and ordinary files are none.
func TestSecret(t *testing.T) {
	for _, p := range []string{
		"/root/.ssh/id_ed25519", "/home/u/.SSH/config", "/home/u/.aws/credentials", "/home/u/.config/gcloud/x/y",
		"/home/u/.config/gh/hosts.yml", "/etc/shadow", "/etc/ssl/private/a.pem",
		"/proc/1/environ", "/run/secrets/x", "/srv/app/.env", "/srv/app/.env.local", "/srv/app/prod.env", "/x/server.key", "/x/a.PEM",
		"/home/u/.bash_history", "/home/u/.docker/config.json",
		"/home/u/.claude/.credentials.json", "/home/u/.netrc", "/home/u/x/../.ssh/id_rsa", "/home/u/.kube/config",
	} {
		if !Secret(p) {
			t.Errorf("%s is none", p)
		}
	}
	for _, p := range []string{
		"/usr/include/stdio.h", "/etc/hostname", "/home/u/notes.txt", "/opt/modules/x/y.go", "/home/u/.cache/go/a.go",
		"/usr/share/doc/ssh/README", "/opt/lib/keys.go", "/home/u/.config/Code/x", "",
	} {
		if Secret(p) {
			t.Errorf("%s is one", p)
		}
	}
	for dir, want := range map[string]bool{
		"/": true, "/home": true, "/home/u": true, "/root": true, "/etc/ssl": true, "/home/u/src": false,
		"/usr/include": false, "/opt/a": false,
	} {
		if Gathers(dir) != want {
			t.Errorf("%s: %v", dir, !want)
		}
	}
}
