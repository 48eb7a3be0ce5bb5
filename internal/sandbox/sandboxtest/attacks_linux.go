package sandboxtest

// attacks are ways to change sealed paths: in place, by replacing them, by moving a directory above them, by
// other names for them, and by making new ones. Where a script makes something, its row says so.
var attacks = []attack{
	{"write", `echo evil >> .git/config; echo evil > .envrc; echo evil > .vscode/tasks.json; echo evil > .git/hooks/pre-push`, nil, false},
	{
		"write deep down", `echo evil >> deep/er/repo/.git/config; echo evil >> deep/.envrc; echo evil >> deep/er/.vscode/settings.json`, nil,
		false,
	},
	{"truncate", `: > .git/config; truncate -s 0 .envrc; : > .gitlab-ci.yml`, nil, false},
	{"write through memory", `$PROBE try mapped .git/config + mapped .envrc`, nil, false},
	{"write what was opened otherwise", `exec 9<.envrc; echo evil > /proc/self/fd/9`, nil, false},
	{"modes and times", `chmod 777 .git/hooks/pre-push .envrc; touch -d 2001-01-01 .git/config .envrc .mcp.json`, nil, false},
	{"remove", `rm -rf .git/hooks .git/config .envrc .vscode .husky .mcp.json .github deep/er/repo/.git`, nil, false},
	{
		"a new file in a sealed directory",
		`echo evil > .git/hooks/post-commit; echo evil > .vscode/launch.json; mkdir .github/workflows/x; echo x > .github/workflows/evil.yml; echo x > .husky/post-checkout`, nil, false,
	},
	{
		"a file without a name in a sealed directory", `$PROBE try tmpfile .git/hooks .git/hooks/post-commit + tmpfile . .git/hooks/post-merge`,
		nil, false,
	},
	{"move a file over", `echo evil > new; mv -f new .git/config; echo evil > new; mv -f new .envrc; echo evil > new; mv -f new .git/hooks/pre-push`, nil, false},
	{"move a sealed file away", `mv .envrc envrc; mv .git/config .git/config2; mv .mcp.json plain/`, nil, false},
	{"exchange", `echo evil > new; $PROBE try exchange new .envrc + exchange new .git/config + exchange plain .git + exchange plain .vscode + exchange plain/dir .git/hooks`, nil, false},
	{"move the repository away", `mv .git git2 && mkdir -p .git/hooks && echo evil > .git/config`, nil, false},
	{"move the hooks away", `mv .git/hooks .git/hooks2 && mkdir .git/hooks && echo evil > .git/hooks/pre-commit`, nil, false},
	{"move a directory above", `mv deep deep2 && mkdir -p deep && echo evil > deep/.envrc`, nil, false},
	{"move a directory between", `mv deep/er deep/er2 && mkdir -p deep/er/repo/.git && echo evil > deep/er/repo/.git/config`, nil, false},
	{
		"move the repository below",
		`mv deep/er/repo deep/er/gone && mkdir -p deep/er/repo/.git/hooks && echo evil > deep/er/repo/.git/hooks/pre-commit`, nil, false,
	},
	{"move a directory up", `mv deep/er . ; mv deep/er/repo plain/`, []string{"er/repo/.git"}, false},
	{"remove all and make it anew", `rm -rf deep; mkdir -p deep/er/repo/.git/hooks; echo evil > deep/er/repo/.git/config`, nil, false},
	{
		"a hard link to write by", `ln .envrc plain/hard && echo evil >> plain/hard; ln .git/config plain/hard2 && echo evil >> plain/hard2`,
		nil, false,
	},
	{"a hard link over", `echo evil > new; ln -f new .envrc; ln -f new .git/config; ln -f new .git/hooks/pre-push`, nil, false},
	{"a symbolic link over", `ln -sfn /tmp/evil .envrc; ln -sfn plain/dir .git/hooks; ln -sf ../file .git/config`, nil, false},
	{"a lock renamed by git", `git config core.fsmonitor ./evil; git config --worktree core.hooksPath plain; git remote add x y`, nil, false},
	{
		"mount something over", `mount --bind plain .git; mount -t tmpfs x .vscode; umount .git; umount -l .envrc; unshare -rm umount .git`,
		nil, true,
	},
	{"climb in from elsewhere", `cd .git/objects && echo evil > ../config; cd / && echo evil > "$OLDPWD/../hooks/post-commit"`, nil, false},

	{
		"a new one at the top", `echo evil > .pre-commit-config.yaml; mkdir .circleci && echo evil > .circleci/config.yml`,
		[]string{".circleci"},
		false,
	},
	{"a new one deep down", `mkdir -p a/b/c/d/e/f && echo evil > a/b/c/d/e/f/.envrc`, []string{"a/b/c/d/e/f/.envrc"}, false},
	{"a new repository", `git init -q sub && printf '#!/bin/sh\n' > sub/.git/hooks/pre-commit`, []string{"sub/.git"}, false},
	{"a repository that is a file", `mkdir gitfile && echo "gitdir: ../plain" > gitfile/.git`, []string{"gitfile/.git"}, false},
	{"a repository that is a link", `mkdir gitlink && ln -s ../plain gitlink/.git`, []string{"gitlink/.git"}, false},
	{"a bare repository", `mkdir -p bare/objects bare/refs bare/hooks && echo 'ref: refs/heads/main' > bare/HEAD && echo '[core]' > bare/config`, []string{"bare"}, false},
	{
		"made under another name and moved", `mkdir -p x/hooks && echo evil > x/config && mv x y.git && mkdir z && mv y.git z/.git`,
		[]string{"z/.git"},
		false,
	},
	{"made and moved with what it lies in", `mkdir -p m/n && echo evil > m/n/.envrc && mv m/n m2`, []string{"m2/.envrc"}, false},
	{"a link of the name", `mkdir l && ln -s /etc/passwd l/.envrc`, []string{"l/.envrc"}, false},
	{"a dangling link of the name", `mkdir dl && ln -s nowhere dl/.vscode`, []string{"dl/.vscode"}, false},
	{"a fifo of the name", `mkdir ff && mkfifo ff/.envrc`, []string{"ff/.envrc"}, false},
	{"another name of a plain file", `mkdir hl && ln file hl/.envrc`, []string{"hl/.envrc"}, false},
	{
		"one that nobody may read", `mkdir -p un/.vscode && echo evil > un/.vscode/tasks.json && chmod 0 un/.vscode`,
		[]string{"un/.vscode"},
		false,
	},
	{
		"one in a directory that nobody may read", `mkdir -p sh/ut && echo evil > sh/ut/.envrc && chmod 0 sh/ut`,
		[]string{"sh/ut/.envrc"},
		false,
	},
	{
		"one in a directory that nobody may write", `mkdir -p ro/dir && echo evil > ro/dir/.envrc && chmod 0555 ro/dir ro`,
		[]string{"ro/dir/.envrc"},
		false,
	},
	{"one with an odd name above it", `n=$(printf 'a b\n*\377'); mkdir "$n" && echo evil > "$n/.envrc"`, []string{".envrc"}, false},
	{
		"one deeper than a path is long",
		`i=0; d=$(printf '%0200d' 0); while [ $i -lt 30 ]; do mkdir $d && cd $d || exit; i=$((i+1)); done; echo evil > .envrc`,
		[]string{"0000"},
		false,
	},
	{
		"a new submodule and work tree of the repository",
		`mkdir -p .git/modules/x/hooks .git/worktrees/y && echo evil > .git/modules/x/config && echo evil > .git/worktrees/y/config.worktree`,
		[]string{".git/modules"},
		false,
	},
	{
		"a submodule with a long name",
		`mkdir -p .git/modules/a/b/c/hooks .git/modules/a/modules/d && echo evil > .git/modules/a/b/c/config && echo evil > .git/modules/a/modules/d/config`,
		[]string{".git/modules/a"},
		false,
	},
	{
		"what git reads beside its configuration", `echo ../plain > .git/commondir; echo evil > .git/config.worktree`,
		[]string{".git/co"},
		false,
	},
	{"below a directory of packages", `mkdir -p node_modules/p && git init -q node_modules/p`, []string{"node_modules/p/.git"}, false},
	{"many", `mkdir many $(seq -f many/%g 0 299); for d in many/*; do : > $d/.envrc; done`, []string{"many/299/.envrc"}, false},
}
