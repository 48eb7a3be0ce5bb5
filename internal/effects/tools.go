package effects

import (
	"path"
	"strings"
)

// What builds, tests, linters and package managers run when people call them, by the last part of a path. Names are
// compared as they are: a file system may hold others for equal, but then the tool itself decides.
var (
	toolFiles = words(`
		package.json Makefile makefile GNUmakefile CMakeLists.txt meson.build BUILD BUILD.bazel WORKSPACE MODULE.bazel justfile Justfile Taskfile.yml
		conftest.py setup.py setup.cfg pyproject.toml tox.ini noxfile.py tasks.py manage.py sitecustomize.py usercustomize.py
		build.rs Cargo.toml build.gradle build.gradle.kts settings.gradle settings.gradle.kts pom.xml gradlew mvnw build.sbt
		Rakefile Gemfile Guardfile composer.json mix.exs Dockerfile docker-compose.yml compose.yaml Vagrantfile Earthfile
		Gruntfile.js gulpfile.js karma.conf.js wscript SConstruct configure CMakePresets.json`)
	toolConfigs = words(`
		eslint.config prettier.config vite.config vitest.config jest.config webpack.config rollup.config babel.config
		next.config nuxt.config svelte.config astro.config tailwind.config postcss.config playwright.config cypress.config tsup.config
		esbuild.config metro.config vue.config stylelint.config commitlint.config lint-staged.config .eslintrc .prettierrc .babelrc .mocharc`)
	toolSuffixes = words(".js .cjs .mjs .ts .cts .mts")
	toolEndings  = words(".mk .mak .cmake .gemspec .bzl .csproj .vcxproj .targets .props .pth")
)

func words(text string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(text) {
		m[w] = true
	}
	return m
}

// RunByTools reports whether builds and tests run a file of this path, by its name.
func RunByTools(name string) bool {
	base := path.Base(name)
	ext := path.Ext(base)
	return toolFiles[base] || toolEndings[ext] || toolSuffixes[ext] && toolConfigs[strings.TrimSuffix(base, ext)]
}
