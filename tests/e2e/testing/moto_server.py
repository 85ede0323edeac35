#!/usr/bin/env python3
"""Serves S3 on a port of loopback, by moto, which checks signatures with botocore's own code.

usage: moto_server.py FOLDER      ends when its standard input does

Makes the bucket "bucket", and a user and a role who may do with objects what common/s3 asks for.
Then it prints one line of JSON: url and tls_url; key_id and secret of the user; the same and a
token of a session of the role; ca, a file in FOLDER with the certificate that tls_url shows.
"""

import datetime
import ipaddress
import json
import os
import ssl
import sys
import threading

import boto3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from moto import settings
from moto.core.authorization import ActionAuthenticatorMixin
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

RIGHTS = {
    "arn:aws:s3:::bucket/*": [
        "s3:GetObject",
        "s3:PutObject",
        "s3:DeleteObject",
        "s3:AbortMultipartUpload",
    ],
    "arn:aws:s3:::bucket": ["s3:ListBucket", "s3:ListBucketMultipartUploads"],
}


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept

    def log_request(self, code="-", size="-"):
        pass


def make_certificate(folder):
    """Writes a certificate of 127.0.0.1 and its key; returns their paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test's own")])
    now = datetime.datetime.now(datetime.timezone.utc)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = [os.path.join(folder, file) for file in ("ca.pem", "key.pem")]
    encoding = serialization.Encoding.PEM
    with open(paths[0], "wb") as out:
        out.write(certificate.public_bytes(encoding))
    with open(paths[1], "wb") as out:
        form = serialization.PrivateFormat.PKCS8
        out.write(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return paths


def serve(application, tls=None):
    server = make_server(
        "127.0.0.1", 0, application, threaded=True, request_handler=Handler, ssl_context=tls
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"


def make_users(url):
    """Makes the bucket, a user and a role; returns the user's key and one of a session."""
    own = dict(
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="root",
        aws_secret_access_key="root",
    )
    boto3.client("s3", **own).create_bucket(Bucket="bucket")
    iam = boto3.client("iam", **own)
    iam.create_user(UserName="strata")
    statements = [
        {"Effect": "Allow", "Action": actions, "Resource": resource}
        for resource, actions in RIGHTS.items()
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    iam.put_user_policy(UserName="strata", PolicyName="p", PolicyDocument=document)
    role = iam.create_role(RoleName="strata", AssumeRolePolicyDocument="{}")["Role"]
    iam.put_role_policy(RoleName="strata", PolicyName="p", PolicyDocument=document)
    session = boto3.client("sts", **own).assume_role(RoleArn=role["Arn"], RoleSessionName="test")
    return iam.create_access_key(UserName="strata")["AccessKey"], session["Credentials"]


def main():
    folder = sys.argv[1]
    ca, key_file = make_certificate(folder)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(ca, key_file)
    application = DomainDispatcherApplication(create_backend_app)
    url = serve(application)
    key, session = make_users(url)
    # From now on each request is checked.
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    ActionAuthenticatorMixin.request_count = 0
    facts = {
        "url": url,
        "tls_url": serve(application, tls),
        "key_id": key["AccessKeyId"],
        "secret": key["SecretAccessKey"],
        "session_key_id": session["AccessKeyId"],
        "session_secret": session["SecretAccessKey"],
        "session_token": session["SessionToken"],
        "ca": ca,
    }
    print(json.dumps(facts), flush=True)
    sys.stdin.read()


main()
