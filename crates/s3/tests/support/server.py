"""An S3 server on the loopback interface, until standard input ends.

Prints one line of JSON: its port, and a key that may only use the bucket 'lakes'. Signatures are checked if the first argument is 'checked'.
"""

import json
import os
import sys

import boto3
from moto import settings
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
port = server.get_host_and_port()[1]
options = {
    "endpoint_url": f"http://127.0.0.1:{port}",
    "region_name": "us-east-1",
    "aws_access_key_id": "admin",
    "aws_secret_access_key": "admin",
}
boto3.client("s3", **options).create_bucket(Bucket="lakes")
iam = boto3.client("iam", **options)
iam.create_user(UserName="shipper")
actions = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket", "s3:AbortMultipartUpload"]
policy = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": actions, "Resource": ["arn:aws:s3:::lakes", "arn:aws:s3:::lakes/*"]}
    ],
}
iam.put_user_policy(UserName="shipper", PolicyName="lake", PolicyDocument=json.dumps(policy))
key = iam.create_access_key(UserName="shipper")["AccessKey"]
if sys.argv[1:] == ["checked"]:
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
print(json.dumps({"port": port, "id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)
sys.stdin.read()
os._exit(0)
