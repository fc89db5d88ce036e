# A static binary in an empty image, run by nobody.
#   docker build -t cairn .
#   docker run -p 8787:8787 -v cairn:/data cairn
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/cairn ./cmd/cairn && mkdir -p /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/cairn /cairn
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
VOLUME /data
EXPOSE 8787
ENTRYPOINT ["/cairn"]
CMD ["serve", "--listen", "0.0.0.0:8787", "--database", "sqlite:/data/cairn.db"]
