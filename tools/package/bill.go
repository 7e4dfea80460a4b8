package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"path/filepath"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill writes which modules a program was built from, as its build information says, and returns the file's name.
func (r *release) bill(program, arch string) (string, error) {
	info, err := buildinfo.ReadFile(filepath.Join(r.dir, arch, program))
	if err != nil {
		return "", err
	}
	components := []cdx.Component{{Type: cdx.ComponentTypeLibrary, Name: "stdlib", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + info.GoVersion}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, cdx.Component{Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			PackageURL: "pkg:golang/" + m.Path + "@" + m.Version})
	}
	b := cdx.NewBOM()
	b.Metadata = &cdx.Metadata{Component: &cdx.Component{Type: cdx.ComponentTypeApplication, Name: program, Version: r.version}}
	b.Components = &components
	out := new(bytes.Buffer)
	if err := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(b); err != nil {
		return "", err
	}
	name := program + "_" + r.version + "_" + arch + ".cdx.json"
	return name, os.WriteFile(filepath.Join(r.dir, name), out.Bytes(), 0o644)
}
