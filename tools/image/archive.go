package main

import (
	"archive/tar"
	"encoding/json"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The annotations of an index that name an image: OCI's, and the one that containerd prefers.
const (
	ociName        = "org.opencontainers.image.ref.name"
	containerdName = "io.containerd.image.name"
)

// writeArchive writes an OCI image layout as a tar archive. The file manifest.json describes the same blobs for
// versions of Docker that do not read OCI layouts.
func writeArchive(w io.Writer, img v1.Image, ref string) error {
	archive := tar.NewWriter(w)
	if err := addJSON(archive, "oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}); err != nil {
		return err
	}
	docker, err := addBlobs(archive, img)
	if err != nil {
		return err
	}
	docker.RepoTags = []string{ref}
	if err := addJSON(archive, "manifest.json", tarball.Manifest{docker}); err != nil {
		return err
	}
	index, err := indexOf(img, ref)
	if err != nil {
		return err
	}
	if err := addFile(archive, "index.json", 0o644, index); err != nil {
		return err
	}
	return archive.Close()
}

// addBlobs adds an image's manifest, configuration and layers, and returns the names of the last two for Docker.
func addBlobs(archive *tar.Writer, img v1.Image) (docker tarball.Descriptor, err error) {
	add := func(hash v1.Hash, text []byte, err error) (string, error) {
		if err != nil {
			return "", err
		}
		path := "blobs/" + hash.Algorithm + "/" + hash.Hex
		return path, addFile(archive, path, 0o644, text)
	}
	digest, err := img.Digest()
	if err != nil {
		return docker, err
	}
	text, err := img.RawManifest()
	if _, err = add(digest, text, err); err != nil {
		return docker, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return docker, err
	}
	text, err = img.RawConfigFile()
	if docker.Config, err = add(manifest.Config.Digest, text, err); err != nil {
		return docker, err
	}
	for _, described := range manifest.Layers {
		text, err := layerText(img, described.Digest)
		path, err := add(described.Digest, text, err)
		if err != nil {
			return docker, err
		}
		docker.Layers = append(docker.Layers, path)
	}
	return docker, nil
}

// layerText returns a layer's compressed bytes.
func layerText(img v1.Image, digest v1.Hash) ([]byte, error) {
	layer, err := img.LayerByDigest(digest)
	if err != nil {
		return nil, err
	}
	r, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// indexOf returns the layout's index, which names the image.
func indexOf(img v1.Image, ref string) ([]byte, error) {
	full, err := fullName(ref)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	described, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	described.ArtifactType = "" // An image is no artifact, though the library sets it.
	described.Platform = config.Platform()
	described.Annotations = map[string]string{containerdName: full, ociName: full}
	return json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{*described}})
}

// fullName returns a name with its registry, as containerd stores it, such as docker.io/library/netcraq:latest.
// The library writes index.docker.io for docker.io.
func fullName(ref string) (string, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return "", err
	}
	if rest, ok := strings.CutPrefix(tag.Name(), name.DefaultRegistry+"/"); ok {
		return "docker.io/" + rest, nil
	}
	return tag.Name(), nil
}

// addJSON adds a file with the JSON of a value.
func addJSON(archive *tar.Writer, path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return addFile(archive, path, 0o644, text)
}
