{{/* The documents of kubernetes-cronjob.yaml with the names of this release: ConfigMap, PersistentVolumeClaim, CronJob. */}}
{{- define "bkaudit.audit" -}}
{{ .Files.Get "files/kubernetes-cronjob.yaml"
  | replace "name: bkaudit\n" (printf "name: %s\n" .Release.Name)
  | replace "name: bkaudit-runs" (printf "name: %s-runs" .Release.Name)
  | replace "claimName: bkaudit-" (printf "claimName: %s-" .Release.Name)
  | replace "secretName: bkaudit-credentials" (printf "secretName: %s" .Values.credentialsSecret) }}
{{- end }}

{{/* The pod of the nightly audit, with the image and sizes of the values. */}}
{{- define "bkaudit.pod" -}}
{{- $cron := fromYaml (index (splitList "\n---\n" (include "bkaudit.audit" .)) 2) }}
{{- $pod := $cron.spec.jobTemplate.spec.template.spec }}
{{- $container := index $pod.containers 0 }}
{{- $_ := set $container "image" .Values.image }}
{{- $_ := set $container "resources" .Values.resources }}
{{- toYaml $pod }}
{{- end }}

{{/* The DaemonSet of kubernetes-collector.yaml, with the names of this release. */}}
{{- define "bkaudit.collector" -}}
{{- $set := .Files.Get "files/kubernetes-collector.yaml"
  | replace "bkaudit-collector" (printf "%s-collector" .Release.Name)
  | replace "bkaudit-collected" (printf "%s-collected" .Release.Name) | fromYaml }}
{{- $pod := $set.spec.template.spec }}
{{- $_ := set (index $pod.containers 0) "image" .Values.image }}
{{- $_ := set $pod "nodeSelector" .Values.collector.nodeSelector }}
{{- range $pod.volumes }}{{ if .hostPath }}{{ $_ := set .hostPath "path" $.Values.collector.hostPath }}{{ end }}{{ end }}
{{- toYaml $set }}
{{- end }}

{{/* A claim: the name's end, and its values. */}}
{{- define "bkaudit.claim" -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ .name }}
  annotations: {helm.sh/resource-policy: keep}
spec:
  accessModes: [{{ .volume.accessMode }}]
  {{- with .volume.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ .volume.size }}
{{- end }}
