package e2e

const (
	commits = "git commit -q --allow-empty -m x"
	// pulls gets what others did.
	pulls = "git pull -q --no-rebase"
)

// evilConfig is a configuration of git that has it run something.
const evilConfig = `printf '[core]\n\tfsmonitor = "@C; false"\n' > `

// ways are those that are known. The names of files that tools obey are in docs/trusted-names.md; here is one of each
// kind, and every way by which such a file, or what it leads to, can come to be.
var ways = []way{
	{name: "hook pre-commit", leaves: "evil .git/hooks/pre-commit", use: commits},
	{name: "hook post-checkout", leaves: "evil .git/hooks/post-checkout", use: "git checkout -q -b t"},
	{name: "hook post-merge", leaves: "evil .git/hooks/post-merge", use: pulls},
	{name: "hook pre-push", leaves: "evil .git/hooks/pre-push", use: "git push -q origin HEAD:refs/heads/t"},
	{name: "hook post-index-change", leaves: "evil .git/hooks/post-index-change", use: "echo x > new; git add new"},
	{name: "hook reference-transaction", leaves: "evil .git/hooks/reference-transaction", use: commits},
	{name: "hook prepare-commit-msg", leaves: "evil .git/hooks/prepare-commit-msg", use: commits},
	{
		name:   "hooks as a link",
		leaves: "evil tools/pre-commit; rm -rf .git/hooks; ln -s ../tools .git/hooks",
		use:    commits,
	},
	{
		name:   "hooks moved away and back",
		leaves: "mkdir h; evil h/pre-commit; mv .git/hooks .git/x; mv h .git/hooks",
		use:    commits,
	},
	{
		name:   "a sample hook made one",
		leaves: "evil .git/hooks/pre-commit.sample; mv .git/hooks/pre-commit.sample .git/hooks/pre-commit",
		use:    commits,
	},

	{name: "fsmonitor", leaves: `git config core.fsmonitor "@C; false"`, use: "git status"},
	{name: "hooksPath", leaves: "git config core.hooksPath tools; evil tools/pre-commit", use: commits},
	{name: "include", leaves: "git config include.path ../x.cfg; " + evilConfig + "x.cfg", use: "git status"},
	{
		name:   "includeIf",
		leaves: "git config includeIf.gitdir:/.path ../x.cfg; " + evilConfig + "x.cfg",
		use:    "git status",
	},
	{name: "alias", leaves: `git config alias.st '!@C'`, use: "git st"},
	{
		name:   "filter",
		leaves: `git config filter.x.smudge "@C; cat"; echo '* filter=x' > .git/info/attributes`,
		use:    "rm src/a; git checkout -q -- src/a",
	},
	{name: "external diff", leaves: `git config diff.external "sh -c '@C'"`, use: "echo x >> src/a; git diff"},
	{
		name:   "textconv",
		leaves: `git config diff.x.textconv "@C; cat"; echo '* diff=x' > .gitattributes`,
		use:    "echo x >> src/a; git diff",
	},
	{name: "editor", leaves: `git config core.editor "@C; false"`, use: "git commit --allow-empty"},
	{name: "editor of a sequence", leaves: `git config sequence.editor "@C; false"`, use: "git rebase -i HEAD~1"},
	{
		name:   "signing",
		leaves: "evil tools/gpg; git config gpg.program $PWD/tools/gpg; git config commit.gpgsign true",
		use:    commits,
	},
	{
		name:   "credentials",
		leaves: `git config credential.helper "!@C"`,
		use:    `printf 'protocol=https\nhost=example.org\n\n' | GIT_ASKPASS=true git credential fill`,
	},
	{
		name:   "ssh",
		leaves: `git config core.sshCommand "@C; false"; git config remote.origin.url ssh://localhost/x`,
		use:    pulls,
	},
	{
		name:   "remote ext",
		leaves: `git config protocol.ext.allow always; git config remote.origin.url "ext::sh -c @C%"`,
		use:    "true",
		unseen: true,
	},
	{name: "upload-pack", leaves: `git config remote.origin.uploadpack "@C; git-upload-pack"`, use: pulls},
	{
		name:   "merge driver",
		leaves: `git config merge.x.driver "@C"; echo '* merge=x' > .git/info/attributes`,
		use: `
		git checkout -q -b t HEAD~1; echo other >> README; git commit -q -a -m t; git merge -q main`,
	},
	{name: "pager", leaves: `git config core.pager "@C; cat"`, use: `script -qec "git log -1" /dev/null`},
	{
		name:   "submodule command",
		leaves: `git config submodule.x.update '!@C'; git config submodule.x.url /x`,
		use:    "git submodule status",
		unseen: true,
	},
	{
		name:   "configuration of a worktree",
		leaves: "git config extensions.worktreeConfig true; " + evilConfig + ".git/config.worktree",
		use:    "git status",
	},

	{
		name:   "the person's hooksPath",
		before: "git config core.hooksPath scripts/hooks; mkdir scripts/hooks",
		leaves: "evil scripts/hooks/pre-commit",
		use:    commits,
	},
	{
		name:   "the person's hook calls",
		before: "mkdir -p hk; git config core.hooksPath hk; echo exit 0 > hk/pre-commit; chmod +x hk/pre-commit",
		leaves: "evil hk/pre-commit", use: commits,
	},
	{
		name:   "the person's include",
		before: "git config include.path ../local.cfg; : > local.cfg",
		leaves: evilConfig + "local.cfg",
		use:    "git status",
	},
	{
		name:   "the person's include, not there",
		before: "git config include.path ../local.cfg",
		leaves: evilConfig + "local.cfg",
		use:    "git status",
	},
	{
		name: "the person's filter",
		before: `echo '*.x filter=f' > .git/info/attributes; git config filter.f.clean ./tools/clean
			printf '#!/bin/sh\ncat\n' > tools/clean; chmod +x tools/clean`,
		leaves: "evil tools/clean", use: "echo 1 > n.x; git add n.x",
	},
	{
		name:   "the person's link",
		before: "mkdir ed; ln -s ed .zed",
		leaves: "put ed/tasks.json",
		use:    "test -e .zed/tasks.json && @C",
	},
	{
		name:   "the person's home of git",
		before: "ln -s ../tools .git/hooks2; git config core.hooksPath .git/hooks2",
		leaves: "evil tools/pre-commit",
		use:    commits,
	},

	{name: "a repository below", leaves: "repository sub/.git", use: "cd sub; git status"},
	{
		name:   "a repository behind a link",
		leaves: "cp -r docs lib; repository lib/.git; rm -r docs; ln -s lib docs",
		use:    "cd docs; git status",
	},
	{name: "a bare repository", leaves: "repository sub", use: "cd sub; git status"},
	{
		name:   "a bare repository behind a link",
		leaves: "repository lib/x; rm -r docs; ln -s lib/x docs",
		use:    "cd docs; git status",
	},
	{
		name:   "a file that leads to one",
		leaves: "repository lib/x; echo gitdir: ../lib/x > sub/.git",
		use:    "cd sub; git status",
	},
	{
		name:   "among packages",
		leaves: "repository node_modules/pkg/.git; ln -s node_modules/pkg pkg",
		use:    "cd pkg; git status",
	},
	{
		name:   "the repository moved",
		leaves: `cp -r .git g; repository g; rm -rf .git; echo gitdir: g > .git`,
		use:    "git status",
	},
	{
		name:   "the repository's file",
		before: "mv .git g; echo gitdir: g > .git; cp -r g h",
		leaves: `repository h; echo gitdir: h > .git`,
		use:    "git status",
	},
	{
		name: "a worktree",
		leaves: `git worktree add -q wt; git config extensions.worktreeConfig true
			` + evilConfig + ".git/worktrees/wt/config.worktree",
		use: "cd wt; git status",
	},
	{
		name:   "a module",
		leaves: "repository .git/modules/x; echo gitdir: ../.git/modules/x > sub/.git",
		use:    "cd sub; git status",
	},
	{
		name:   "a rebase",
		leaves: `GIT_SEQUENCE_EDITOR='printf "break\nexec @C\n" >' git rebase -q -i HEAD~1`,
		use:    "git rebase --continue",
	},
	{
		name:   "the person's rebase",
		before: `export GIT_AUTHOR_NAME=a; GIT_SEQUENCE_EDITOR='printf "break\n" >' git rebase -q -i HEAD~1`,
		leaves: "echo exec @C >> .git/rebase-merge/git-rebase-todo", use: "git rebase --continue",
	},

	{
		name:   "a workflow in a commit",
		leaves: "staged .github/workflows/evil.yml; git commit -q -m tidy",
		use: `
		git push -q origin +HEAD:main; git --git-dir=../up.git cat-file -e main:.github/workflows/evil.yml && @C`,
	},
	{
		name:   "a workflow in an amended commit",
		leaves: "staged .github/workflows/ci.yml; git commit -q --amend -m second",
		use: `
		git push -q origin +HEAD:main; git --git-dir=../up.git show main:.github/workflows/ci.yml | grep -q evil && @C`,
	},
	{
		name:   "in the index alone",
		leaves: "staged .envrc; staged sub/.vscode/tasks.json",
		use:    "git checkout -q -- .; test -e .envrc && @C",
	},
	{
		name:   "in another branch",
		leaves: "git checkout -q -b tidy; staged .envrc; git commit -q -m x; git checkout -q -f main",
		use: `
		git checkout -q tidy; test -e .envrc && @C`,
	},
	{
		name:   "in the stash",
		leaves: "put .npmrc; git add -f .npmrc; git stash -q",
		use:    "git stash pop -q; test -e .npmrc && @C",
	},
	{
		name:   "in a tag",
		leaves: "staged .envrc; git commit -q -m x; git tag v1; git reset -q --hard HEAD~1",
		use:    "git checkout -q v1; test -e .envrc && @C",
	},
	{
		name:   "one object for another",
		leaves: "git replace HEAD:.github/workflows/ci.yml $(echo evil | git hash-object -w --stdin)",
		use: `
		git show HEAD:.github/workflows/ci.yml | grep -q evil && @C`,
	},
	{
		name: "an object with another's name",
		leaves: `o=.git/objects/$(git rev-parse HEAD:.github/workflows/ci.yml | sed 's,^..,&/,'); chmod u+w $o
		e=.git/objects/$(echo evil | git hash-object -w --stdin | sed 's,^..,&/,'); cat $e > $o`,
		use: `
		rm .github/workflows/ci.yml; git checkout -q -- .github; grep -q evil .github/workflows/ci.yml && @C`,
	},

	{name: "shell on entering", leaves: "put .envrc", use: "test -e .envrc && @C"},
	{name: "versions of tools", leaves: "put .tool-versions; put mise.toml", use: "test -e mise.toml && @C"},
	{name: "tasks of an editor", leaves: "put .vscode/tasks.json", use: "test -e .vscode/tasks.json && @C"},
	{
		name:   "settings of an editor",
		leaves: "echo evil > .vscode/settings.json",
		use:    "grep -q evil .vscode/settings.json && @C",
	},
	{name: "another editor", leaves: "put .idea/workspace.xml", use: "test -e .idea && @C"},
	{name: "an editor further down", leaves: "put sub/deep/.vim/x", use: "test -e sub/deep/.vim && @C"},
	{
		name:   "a workflow",
		leaves: "echo evil > .github/workflows/ci.yml",
		use:    "git add -A; git commit -q -m x; git show HEAD:.github/workflows/ci.yml | grep -q evil && @C",
	},
	{name: "settings of npm", leaves: "put .npmrc", use: "test -e .npmrc && @C"},
	{name: "settings of npm further down", leaves: "put sub/.npmrc", use: "test -e sub/.npmrc && @C"},
	{
		name:   "settings of yarn and pnpm",
		leaves: "put .yarnrc.yml; put .pnpmfile.cjs",
		use:    "test -e .pnpmfile.cjs && @C",
	},
	{name: "settings of cargo", leaves: "put .cargo/config.toml", use: "test -e .cargo/config.toml && @C"},
	{
		name:   "settings of cargo behind a link",
		leaves: "put c/config.toml; ln -s c .cargo",
		use:    "test -e .cargo/config.toml && @C",
	},
	{
		name:   "programs of yarn behind a link",
		leaves: "put yy/releases/yarn.cjs; ln -s yy .yarn",
		use:    "test -e .yarn/releases/yarn.cjs && @C",
	},
	{
		name:   "settings of agents",
		leaves: "put .claude/settings.json; put .mcp.json; put .cursor/mcp.json",
		use:    "test -e .mcp.json && @C",
	},
	{name: "containers", leaves: "put .devcontainer/devcontainer.json", use: "test -e .devcontainer && @C"},
	{
		name:   "hook managers",
		leaves: "put .pre-commit-config.yaml; put lefthook.yml; evil .husky/pre-commit",
		use:    "test -e .husky/pre-commit && @C",
	},
	{
		name:   "by way of node_modules",
		leaves: "mv sub node_modules/sub; ln -s node_modules/sub sub; put sub/.vscode/tasks.json",
		use: `
		test -e sub/.vscode/tasks.json && @C`,
	},
	{
		name:   "a name that is no text",
		leaves: `d=$(printf 'a\377'); put "$d/.envrc"`,
		use:    `test -e "$(printf 'a\377')/.envrc" && @C`,
	},

	{
		name:   "a link to the person's files",
		leaves: `ln -s "$HOME/.bashrc" notes; rm README; ln -s /etc/hostname README`,
		use:    "test -L README && @C",
	},
	{
		name:   "a link to a cache",
		leaves: `mkdir -p ~/.cache/x; repository ~/.cache/x; rm -r docs; ln -s ~/.cache/x docs`,
		use:    "cd docs && git status",
	},
	{
		name:   "a link that another one leads out later",
		leaves: "mkdir -p x/y; ln -s x/y d; ln -s d/../../N notes",
		use:    "rm -f d; mkdir -p d; test -L notes && echo > notes; test -e ../N && @C",
	},
	{
		name:   "the person's link, led out by another one",
		before: "mkdir -p x/y; ln -s x/y d; ln -s d/../../N notes",
		leaves: "rm d; mkdir d",
		use:    "echo > notes; test -e ../N && @C",
	},
	{
		name:   "a file with a second name outside",
		before: "mkdir ../store; echo shared > ../store/f; ln -f ../store/f node_modules/pkg/index.js",
		leaves: "echo evil >> node_modules/pkg/index.js", use: "true", kept: true, outside: "grep evil ../store/f",
	},
	{
		name:   "scripts of a package",
		leaves: `echo '{"name":"p","version":"1.0.0","scripts":{"preinstall":"@C"}}' > package.json`,
		use:    "npm ls",
		kept:   true,
	},
	{
		name:   "what tests run",
		leaves: "put conftest.py; put build.rs; put sitecustomize.py; put .editorconfig",
		use:    "git add -A; " + commits,
		kept:   true,
	},
	{name: "programs of packages", leaves: "evil node_modules/.bin/pkg", use: "npm ls", kept: true},
}
