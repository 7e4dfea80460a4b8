package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// product are the programs of the product's image. The chart runs them by these names.
var product = []string{"netcraq", "netcraq-cni"}

// machines are the architectures that programs are built for, as Go and as ELF name them.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// created is the time of every file and image: the time of a build must not change the bytes.
var created = time.Unix(0, 0).UTC()

// labels tell apart images of different builds.
type labels struct{ version, revision string }

// build makes the image of one architecture from programs in dir. They are in its root directory; the first is its
// entry point.
func build(dir, arch string, programs []string, about labels) (v1.Image, error) {
	machine, ok := machines[arch]
	if !ok {
		return nil, fmt.Errorf("architecture %q is not supported: use amd64 or arm64", arch)
	}
	layer, err := packLayer(dir, programs, machine)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, configOf(arch, programs[0], about))
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "make images"}})
}

// configOf returns an image's configuration, but for its layers.
func configOf(arch, entry string, about labels) *v1.ConfigFile {
	named := map[string]string{"org.opencontainers.image.title": "NetCRAQ"}
	if about.version != "" {
		named["org.opencontainers.image.version"] = about.version
	}
	if about.revision != "" {
		named["org.opencontainers.image.revision"] = about.revision
	}
	return &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/" + entry}, Env: []string{"PATH=/"}, Labels: named},
	}
}

// packLayer makes one layer of all programs.
func packLayer(dir string, programs []string, machine elf.Machine) (v1.Layer, error) {
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	for _, name := range programs {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := checkProgram(text, machine); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := addFile(archive, name, 0o755, text); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}

// checkProgram returns an error for a program that cannot run in an image without libraries.
func checkProgram(text []byte, machine elf.Machine) error {
	program, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if program.Machine != machine {
		return fmt.Errorf("built for %v instead of %v: set GOARCH", program.Machine, machine)
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("needs a dynamic linker, and the image has none: build it with CGO_ENABLED=0")
		}
	}
	return nil
}

// addFile adds a file of root with the time of every file.
func addFile(archive *tar.Writer, name string, mode int64, text []byte) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(text)), ModTime: created,
		Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(text)
	return err
}
